"""Rule: steps take memory from the driver and give it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import Reserving, reserving_in_steps


@dataclass(frozen=True)
class AllocatorRetries(Rule):
    """Steps give the device's memory back to the driver and take it again.

    What it is: torch keeps the memory that tensors free, since the driver is slow at it. When no kept block is large
    enough and the device is full, it gives all of them back and tries again; ``torch.cuda.empty_cache()`` makes it do
    so at any time.

    Why it costs: giving back waits until the device has done everything that was asked of it, and taking a block costs
    the host some 0.1 to 1 ms. Meanwhile nothing is launched.

    How it is measured: the allocator counts its retries, over the steady steps. The trace shows the calls
    (``cudaFree``, ``cudaMalloc``, their like in HIP, and the mapping of segments that grow); the share is the time of
    these calls in which the device has nothing to do. Calls without a retry come from the code. A run only takes
    memory as it begins: a step counts if it gives some back.

    Fix: a smaller batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against gaps between blocks; take
    ``torch.cuda.empty_cache()`` out of the step.

    Silent when: nothing is given back, or the calls cost under ``info_share`` of the step and retries are counted in
    fewer than ``retries_per_step`` of the steps. Under 5 % they are only information.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    info_share: float = 0.01
    retries_per_step: float = 0.01

    needs_any: ClassVar[tuple[str, ...]] = ("resources", "trace")
    symptom_of: ClassVar[tuple[str, ...]] = ("memory-growth",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where neither the allocator nor a trace tells."""
        reason = super().skip_reason(evidence)
        resources = evidence.resources
        if reason is not None or resources is None or evidence.trace is not None:
            return reason
        if resources.memory is not None and resources.memory.num_retries is None:
            return f"the allocator of {resources.memory.device_type} does not tell"
        return resources.missing.get("memory")  # without a reason: there is none but the host's

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        counted = _retries(evidence)
        retries, num_steps = counted or (0, 0)
        often = num_steps > 0 and retries >= self.retries_per_step * num_steps and retries > 0
        seen = None if evidence.trace is None else reserving_in_steps(evidence.trace)
        if seen is not None and seen.idle_share >= self.info_share:
            yield self._seen(seen, None if counted is None else retries)
        elif often:
            yield self._counted(retries, num_steps)

    def _seen(self, seen: Reserving, retries: int | None) -> Finding:
        share = seen.idle_share
        severity = Severity.of(share, self.warning_share, self.critical_share)
        by_code = retries == 0
        steps = f"in {seen.freeing_steps} of {seen.num_steps} steps" if seen.num_steps else "in the trace"
        return Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            summary=f"The device's memory is given back to the driver {seen.num_given_back} times and taken "
            f"{seen.num_taken} times, {steps}: for {100 * share:.1f} % of the time the device waits for that"
            f"{', and no retry of the allocator is the reason' if by_code else ''}.",
            advice=_OF_CODE if by_code else (_OF_ALLOCATOR if retries else f"{_OF_CODE[:-1]}; else {_LOWERED}"),
            where=Where() if seen.place is None else Where(file=seen.place.file, line=seen.place.line),
            evidence={**_numbers(seen), "num_retries": retries},
        )

    def _counted(self, retries: int, num_steps: int) -> Finding:
        return Finding(
            rule=self.id(),
            severity=Severity.WARNING,
            share=None,
            summary=f"The device's memory ran full {retries} times in {num_steps} steps: each time the allocator "
            "waited for the device, gave back what it keeps and asked again.",
            advice=_OF_ALLOCATOR,
            evidence={"num_retries": retries, "num_steps": num_steps},
        )


_OF_CODE = "Take torch.cuda.empty_cache() out of the step (it frees nothing that torch could not use again)."
_OF_ALLOCATOR = (
    "Use a smaller batch, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True if the sizes of batches change."
)
_LOWERED = f"{_OF_ALLOCATOR[0].lower()}{_OF_ALLOCATOR[1:]}"


def _retries(evidence: Evidence) -> tuple[int, int] | None:
    """Retries and the steps they were counted in; None where they were not counted."""
    memory = None if evidence.resources is None else evidence.resources.memory
    if memory is None or memory.num_retries is None or memory.num_steps == 0:
        return None
    return memory.num_retries, memory.num_steps


def _numbers(seen: Reserving) -> dict[str, Any]:
    return {
        "num_taken": seen.num_taken,
        "num_given_back": seen.num_given_back,
        "freeing_steps": seen.freeing_steps,
        "num_steps": seen.num_steps,
        "host_share": seen.host_share,
        "idle_share": seen.idle_share,
    }
