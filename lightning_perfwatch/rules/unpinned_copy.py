"""Rule: copies between host and device go through pageable memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.frequency import how_often
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import CopyCost, copy_costs


@dataclass(frozen=True)
class UnpinnedCopy(Rule):
    """Batches are copied to the GPU from pageable memory.

    What it is: a copy between the device and host memory that the operating system may move. The driver can't hand
    it to the copy engine as it is; it moves the data through a pinned buffer of its own, piece by piece.

    Why it costs: such a copy holds up the host, runs at a fraction of the bus's speed, and can't run beside
    kernels: neither ``non_blocking=True`` nor prefetching helps it.

    How it is measured: the time in which the device does nothing but such copies, from the names that the profiler
    gives them in the trace. Only as much counts as there is other work to hide them behind. Without a trace, the
    transfer's share of the step on the device's clock where the loader has ``pin_memory=False``.

    Fix: ``pin_memory=True`` in the ``DataLoader``; Lightning then copies with ``non_blocking=True``. For tensors of
    your own, ``tensor.pin_memory().to(device, non_blocking=True)``.

    Silent when: such copies cost under 5 % of the step.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25

    needs_any: ClassVar[tuple[str, ...]] = ("trace", "steps")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where a GPU is used and neither a trace nor the loader's settings tell."""
        reason = super().skip_reason(evidence)
        on_device = evidence.run is not None and evidence.run.device_is_asynchronous
        if reason is None and on_device and evidence.trace is None and evidence.loader is None:
            return "neither a trace nor the loader's settings tell how batches are copied"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        if evidence.trace is not None and len(evidence.trace.copies):
            costs = [cost for cost in copy_costs(evidence.trace) if cost.pageable]
            worst = max(costs, key=lambda cost: (cost.hideable_share, cost.direction == "HtoD"), default=None)
            if worst is not None and worst.hideable_share >= self.warning_share:
                yield self._of_trace(worst)
        elif evidence.trace is None:
            yield from self._of_steps(evidence)

    def _of_trace(self, cost: CopyCost) -> Finding:
        to_device = cost.direction != "DtoH"
        way = "to the GPU from" if to_device else "from the GPU into"
        return Finding(
            rule=self.id(),
            severity=Severity.of(cost.hideable_share, self.warning_share, self.critical_share),
            share=cost.hideable_share,
            summary=f"The GPU does nothing for {100 * cost.exposed_share:.0f} % of the time but copy {way} pageable "
            f"memory, {how_often(cost.num_copies, cost.per_step)} and {cost.bytes_per_copy / 1e6:.1f} MB at a time.",
            advice="Set pin_memory=True in the training DataLoader, and copy tensors of your own with "
            "tensor.pin_memory().to(device, non_blocking=True)."
            if to_device
            else "Copy into a pinned buffer, torch.empty(..., pin_memory=True).copy_(tensor, non_blocking=True), "
            "and read it when an event says that the copy is done.",
            evidence={
                "direction": cost.direction,
                "exposed_share": cost.exposed_share,
                "copies_per_step": cost.per_step,
                "bytes_per_copy": cost.bytes_per_copy,
            },
        )

    def _of_steps(self, evidence: Evidence) -> Iterable[Finding]:
        steps, loader, run = evidence.steps, evidence.loader, evidence.run
        if (
            steps is None
            or loader is None
            or run is None
            or run.device_type != "cuda"
            or loader.pin_memory is not False
        ):
            return
        share = min(1.0, steps.share("transfer")) if steps.device_s is not None else 0.0
        if share >= self.warning_share:
            yield Finding(
                rule=self.id(),
                severity=Severity.of(share, self.warning_share, self.critical_share),
                share=share,
                summary=f"Copying the batch to the GPU takes {100 * share:.0f} % of the step, and the loader does not "
                "pin its memory.",
                advice="Set pin_memory=True in the training DataLoader.",
                evidence={"transfer_s": steps.phase_s("transfer"), "step_s": steps.mean_step_s},
            )
