"""What a trace says of its steps and its devices, in words.

Owns the wording of host and device times. Knows no layout and nothing of the run around the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lightning_perfwatch.reporters.wording import Fact, amount, clean, duration, percent
from lightning_perfwatch.trace import DeviceBreakdown, DeviceStep, HostStep

_HOST_PARTS = {
    "data_wait_s": "data wait",
    "operators_s": "operators",
    "calls_s": "runtime calls outside of operators",
    "python_s": "Python between them",
}
_IDLE_CAUSES = {
    "data_idle_share": "waiting for data",
    "sync_idle_share": "host waits for the device",
    "launch_idle_share": "host launches too slowly",
    "stall_idle_share": "host busy elsewhere",
    "other_idle_share": "unknown",
}
_LEAST_SHARE = 0.001


def host_facts(steps: Sequence[HostStep]) -> Iterable[Fact]:
    """The host's mean step; nothing for a trace without a step."""
    total_s = sum(step.dur_s for step in steps)
    if total_s <= 0:
        return
    parts = []
    for name, words in _HOST_PARTS.items():
        measured = [getattr(step, name) for step in steps]
        if None not in measured and sum(measured) / total_s >= _LEAST_SHARE:
            parts.append(f"{words} {percent(sum(measured) / total_s)}")
    yield Fact("host", f"{duration(total_s / len(steps))} per step: {', '.join(parts)}")


def device_facts(devices: Sequence[DeviceBreakdown], steps: Sequence[DeviceStep]) -> Iterable[Fact]:
    """Every device: how busy it is, and why it is idle."""
    for device in devices:
        yield Fact(f"device {device.index}", clean(", ".join(_device(device, steps))))
        if causes := _causes(device):
            yield Fact(f"device {device.index} idle", f"{percent(device.idle_share)}: {', '.join(causes)}")


def _device(device: DeviceBreakdown, steps: Sequence[DeviceStep]) -> Iterable[str]:
    if device.name:
        yield device.name
    lengths_s = [step.dur_s for step in steps if step.device == device.index]
    if lengths_s:
        yield f"{duration(sum(lengths_s) / len(lengths_s))} per step"
    yield f"busy {percent(device.busy_share)}"
    if device.kernels_per_step is not None:
        yield f"{amount(device.kernels_per_step)} kernels per step"
    if device.kernel_median_us is not None:
        yield f"median kernel {duration(device.kernel_median_us / 1e6)}"
    yield f"copies {percent(device.copy_share)}"
    if device.communication_share:
        exposed = percent(device.exposed_communication_share)
        yield f"communication {percent(device.communication_share)}, exposed {exposed}"


def _causes(device: DeviceBreakdown) -> list[str]:
    """The largest first; empty where the trace has no host calls that could tell."""
    shares = {words: getattr(device, name) for name, words in _IDLE_CAUSES.items()}
    known = {words: share for words, share in shares.items() if share is not None and share >= _LEAST_SHARE}
    return [f"{words} {percent(share)}" for words, share in sorted(known.items(), key=lambda item: -item[1])]
