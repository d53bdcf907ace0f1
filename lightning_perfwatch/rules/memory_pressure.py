"""Rule: the device's memory is nearly full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import Trace


@dataclass(frozen=True)
class MemoryPressure(Rule):
    """Tensors fill nearly all of the device's memory.

    What it is: at its peak the training has almost no memory left on its device.

    Why it costs: the allocator keeps freed blocks for the next step, and needs room for that. Without it, it gives
    them back to the driver and asks again, each time waiting for the device (``allocator-retries``), and one longer
    batch ends the run.

    How it is measured: the most that tensors ever took, as torch's allocator has counted it, over the memory of the
    device. 92 % leave less than the gaps between blocks usually take; with 97 % hardly a batch can be longer than
    those before it. A trace with ``profile_memory`` tells the same of its window.

    Fix: a smaller ``batch_size`` with ``accumulate_grad_batches``, ``precision="bf16-mixed"``, activation
    checkpointing, or sharding.

    Silent when: the peak is under 92 %.
    """

    warning_fill_share: float = 0.92
    critical_fill_share: float = 0.97

    needs_any: ClassVar[tuple[str, ...]] = ("resources", "trace")
    symptom_of: ClassVar[tuple[str, ...]] = ("memory-growth",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where nothing tells of a device's memory."""
        reason = super().skip_reason(evidence)
        if reason is not None or _fill(evidence) is not None:
            return reason
        resources = evidence.resources
        if resources is None:
            return "the trace does not tell what the device's memory holds"
        if resources.memory is not None:
            return f"the size of the memory of {resources.memory.device_type} is not known"
        return resources.missing.get("memory")  # without a reason: there is none but the host's

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        fill = _fill(evidence)
        if fill is None or fill[0] < self.warning_fill_share * fill[1]:
            return
        peak_bytes, capacity_bytes = fill
        share = peak_bytes / capacity_bytes
        batch_size = None if evidence.loader is None else evidence.loader.batch_size
        halved = batch_size is not None and batch_size > 1
        smaller = f"Set batch_size={(batch_size or 0) // 2}" if halved else "Use a smaller batch"
        yield Finding(
            rule=self.id(),
            severity=Severity.CRITICAL if share >= self.critical_fill_share else Severity.WARNING,
            share=None,
            summary=f"Tensors take up to {peak_bytes / 2**30:.1f} GiB of the device's {capacity_bytes / 2**30:.1f} GiB "
            f"({100 * share:.0f} %): the next longer batch may not fit.",
            advice=f'{smaller} with accumulate_grad_batches=2, precision="bf16-mixed", or activation checkpointing.',
            evidence={"peak_bytes": peak_bytes, "capacity_bytes": capacity_bytes, "batch_size": batch_size},
        )


def _fill(evidence: Evidence) -> tuple[int, int] | None:
    """The peak and the capacity in bytes, by the allocator or else by the trace; None where neither tells both."""
    memory = None if evidence.resources is None else evidence.resources.memory
    if memory is not None and memory.peak_bytes is not None and memory.capacity_bytes:
        return memory.peak_bytes, memory.capacity_bytes
    return None if evidence.trace is None else _fill_of_trace(evidence.trace)


def _fill_of_trace(trace: Trace) -> tuple[int, int] | None:
    """That of the device that is fullest."""
    totals = trace.allocations
    described: Any = trace.metadata.get("deviceProperties")
    found = []
    for device in described if isinstance(described, list) else ():
        index, capacity = (device.get("id"), device.get("totalGlobalMem")) if isinstance(device, dict) else (None, None)
        if not isinstance(index, int) or not isinstance(capacity, int) or capacity <= 0:
            continue
        allocated = totals.allocated_bytes[(totals.device_type == _CUDA) & (totals.device == index)]
        if len(allocated) and int(allocated.max()) > 0:
            found.append((int(allocated.max()), capacity))
    return max(found, key=lambda fill: fill[0] / fill[1], default=None)


_CUDA = 1
"""Torch's number for devices of CUDA and ROCm."""
