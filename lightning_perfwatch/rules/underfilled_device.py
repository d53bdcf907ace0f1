"""Rule: the device's kernels are too small to fill it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import DeviceBreakdown, Trace, filled_share


@dataclass(frozen=True)
class UnderfilledDevice(Rule):
    """The device is busy, but its kernels fill only a part of it.

    What it is: kernels whose grids have fewer blocks than the device has multiprocessors; the rest of them has nothing
    to do although the device counts as busy.

    Why it costs: such a kernel takes as long for one sample as for several. A larger batch, with memory to spare,
    comes nearly for free.

    How it is measured: over the time of the kernels in the trace, the mean part of the multiprocessors that have a
    block to run. The share is the rest of that, over the time in which the device is busy: what a batch that fills
    the device would bring in samples per second, at most.

    Fix: raise ``batch_size`` (and the learning rate with it), or run several small models side by side.

    Silent when: kernels fill more than half of the device, or it is busy for less than ``min_busy_share`` of the time:
    then it waits for something else, and small kernels are only a symptom.
    """

    most_filled_share: float = 0.5
    min_busy_share: float = 0.5
    critical_share: float = 0.5

    needs: ClassVar[tuple[str, ...]] = ("trace",)
    symptom_of: ClassVar[tuple[str, ...]] = (
        "dataloader-starvation", "exposed-communication", "host-sync", "launch-bound", "slow-hook", "straggler-rank",
    )  # fmt: skip

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where the trace does not tell the sizes of kernels."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.trace is None or evidence.breakdown is None:
            return reason
        devices = evidence.breakdown.devices
        if any(device.kernel_median_us is not None for device in devices) and not _filled(evidence.trace, devices):
            return "the trace does not tell the sizes of kernels"
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for the device that is filled least."""
        assert evidence.trace is not None and evidence.breakdown is not None
        for filled, device in _filled(evidence.trace, evidence.breakdown.devices)[:1]:
            computing = max(0.0, device.busy_share - device.exposed_communication_share)
            if filled <= self.most_filled_share and computing >= self.min_busy_share:
                yield self._finding(filled, device, computing * (1.0 - filled), evidence)

    def _finding(self, filled: float, device: DeviceBreakdown, share: float, evidence: Evidence) -> Finding:
        size = None if evidence.loader is None else evidence.loader.batch_size
        advice = "Raise the batch size" if size is None else f"Raise batch_size from {size} to {2 * size} or more"
        return Finding(
            rule=self.id(),
            severity=Severity.CRITICAL if share >= self.critical_share else Severity.WARNING,
            share=share,
            summary=f"The GPU is busy for {100 * device.busy_share:.0f} % of the time, but its kernels give work to "
            f"only {100 * filled:.0f} % of its multiprocessors.",
            advice=f"{advice}, as far as memory allows: the larger batch takes hardly longer.",
            where=Where(),
            evidence={"filled_share": filled, "busy_share": device.busy_share, "batch_size": size},
        )


def _filled(trace: Trace, devices: Iterable[DeviceBreakdown]) -> list[tuple[float, DeviceBreakdown]]:
    """The devices whose kernels tell, the least filled first."""
    known = [(filled_share(trace, device.index), device) for device in devices]
    return sorted(((share, device) for share, device in known if share is not None), key=lambda pair: pair[0])
