"""Rule: the device waits for copies."""

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
class DeviceCopy(Rule):
    """The device waits for copies.

    What it is: copies between host and device, between devices, or within one, during which no kernel runs.

    Why it costs: the bus to the host is some fifty times slower than the device's own memory, and what waits for a
    copy can't be computed. Copies have engines of their own, so a copy that is started early enough costs nothing.

    How it is measured: from the trace, the time in which the device copies and runs no kernel; of copies from and to
    the host only as much as there is other work to hide it behind, since a bus that is never free gets no faster.
    Copies from and into pageable memory are another rule's (``unpinned-copy``).

    Fix: start the copy of the next batch on a stream of its own while this one is computed; copy smaller types (uint8
    images, converted on the device); keep on the device what is used again; copy results to the host once every 50
    steps.

    Silent when: such copies take under 5 % of the step, or fewer than ``min_copies`` were recorded. They are only
    information where there is no other work to hide them behind.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_copies: int = 3

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding, for the direction that costs most."""
        assert evidence.trace is not None
        costs = [
            cost
            for cost in copy_costs(evidence.trace)
            if not cost.pageable and cost.num_copies >= self.min_copies and cost.exposed_share >= self.warning_share
        ]
        if costs:  # of equals the most exposed, which comes first
            worst = max(costs, key=_avoidable_share)
            yield self._finding(worst, _avoidable_share(worst))

    def _finding(self, cost: CopyCost, share: float) -> Finding:
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"For {100 * cost.exposed_share:.0f} % of the time the device only copies "
            f"{_WAYS.get(cost.direction, 'memory')}, "
            f"{how_often(cost.num_copies, cost.per_step)} and {cost.bytes_per_copy / 1e6:.1f} MB at a time"
            + (f"; other work could hide {100 * share:.0f} %." if share < 0.99 * cost.exposed_share else "."),
            advice=_FIXES.get(cost.direction, _LESS) if share >= self.warning_share else _LESS,
            evidence={
                "direction": cost.direction,
                "exposed_share": cost.exposed_share,
                "hideable_share": cost.hideable_share,
                "copies_per_step": cost.per_step,
                "bytes_per_copy": cost.bytes_per_copy,
            },
        )


def _avoidable_share(cost: CopyCost) -> float:
    """What the step would lose: a copy to or from the host can be hidden, one between devices be left out."""
    return cost.hideable_share if cost.direction in ("HtoD", "DtoH") else cost.exposed_share


_WAYS = {
    "HtoD": "from the host",
    "DtoH": "to the host",
    "DtoD": "within its own memory",
    "PtoP": "to or from another device",
}
_LESS = "Copy less: small types (uint8) that the device converts, and keep on the device what is used again."
_FIXES = {
    "HtoD": "Copy the next batch with non_blocking=True on a stream of its own while this one is computed, and copy "
    "small types (uint8) that the device converts.",
    "DtoH": "Collect results on the device (.detach()) and copy them once every 50 steps.",
    "DtoD": "Avoid .clone(), .contiguous() and torch.cat of large tensors: write into views of one buffer instead.",
    "PtoP": "Keep tensors that are used together on one device.",
}
