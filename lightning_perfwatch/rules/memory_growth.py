"""Rule: the memory in use grows from step to step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import MemoryUse
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class MemoryGrowth(Rule):
    """The memory in use grows steadily while training goes on.

    What it is: something of every step stays alive: losses or outputs that are appended with their graph, graphs that
    ``retain_graph`` keeps, samples that a data set never lets go.

    Why it costs: the run ends when memory is full. On the way there the allocator gives back what it keeps for the
    next step, and on the host pages are swapped out.

    How it is measured: the bytes in use (tensors on a device, the process's own pages on the host) where intervals
    end, over the steady steps only: no first steps, no validation, no profiled steps. Growth is steady if each quarter
    of at least ``min_steps`` steps brings at least half of the mean. A leak grows alike in all of them; an allocator
    that still learns sizes levels off, and so does a cache once it is full.

    Fix: append ``loss.detach()`` or ``loss.item()`` every so many steps rather than ``loss``; drop ``retain_graph``;
    clear such lists when an epoch ends.

    Silent when: memory grows by less than ``min_growth_gib`` GiB, and by less than ``min_growth_share`` of what was in
    use before or less than ``least_growth_gib`` GiB, or it does not grow in each quarter.
    """

    min_steps: int = 50
    min_growth_gib: float = 1.0
    min_growth_share: float = 0.5
    least_growth_gib: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("resources",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where memory can't be read or too few steps went by."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.resources is None:
            return reason
        known = _known(evidence)
        if not known:
            return evidence.resources.why_missing("host_memory")
        num_steps = max(memory.num_steps for memory in known)
        if num_steps < self.min_steps:
            return f"{num_steps} steady steps are too few to tell growth, {self.min_steps} are needed"
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """A finding for the device's memory and one for the host's."""
        for memory in _known(evidence):
            grown_bytes = sum(part.grown_bytes for part in memory.growth)
            before_bytes = memory.used_bytes - grown_bytes
            is_much = grown_bytes >= self.min_growth_gib * _GIB or (
                grown_bytes >= self.least_growth_gib * _GIB and grown_bytes >= self.min_growth_share * before_bytes
            )
            if is_much and memory.num_steps >= self.min_steps and _is_steady(memory):
                yield self._finding(memory, grown_bytes)

    def _finding(self, memory: MemoryUse, grown_bytes: int) -> Finding:
        per_step_bytes = grown_bytes / memory.num_steps
        left = ""
        if memory.capacity_bytes is not None:
            steps_left = max(0, memory.capacity_bytes - memory.used_bytes) / per_step_bytes
            left = f"; at this rate {memory.capacity_bytes / _GIB:.0f} GiB are full after {steps_left:,.0f} more steps"
        whose = "the host's memory" if memory.device_type == "cpu" else "the device's memory"
        return Finding(
            rule=self.id(),
            severity=Severity.WARNING,
            share=None,
            summary=f"{whose[0].upper()}{whose[1:]} in use grows by {per_step_bytes / 2**20:.1f} MiB per step, by "
            f"{grown_bytes / _GIB:.1f} GiB in {memory.num_steps} steps{left}.",
            advice="Keep loss.detach() instead of losses and outputs with their graph, drop retain_graph=True, and "
            "clear lists that grow with every step.",
            evidence={
                "device_type": memory.device_type,
                "per_step_bytes": per_step_bytes,
                "grown_bytes": grown_bytes,
                "used_bytes": memory.used_bytes,
                "capacity_bytes": memory.capacity_bytes,
                "num_steps": memory.num_steps,
            },
        )


_GIB = 2**30
_QUARTERS = 4
_OF_MEAN = 0.5


def _known(evidence: Evidence) -> list[MemoryUse]:
    if evidence.resources is None:
        return []
    return [memory for memory in (evidence.resources.memory, evidence.resources.host_memory) if memory is not None]


def _is_steady(memory: MemoryUse) -> bool:
    """Whether each quarter of the steps has its part of the growth; never with fewer than four readings."""
    if len(memory.growth) < _QUARTERS:
        return False
    steps = np.cumsum([0, *(part.num_steps for part in memory.growth)])
    grown = np.cumsum([0, *(part.grown_bytes for part in memory.growth)])
    at_quarters = np.interp(np.linspace(0, steps[-1], _QUARTERS + 1), steps, grown)
    return bool(np.diff(at_quarters).min() >= _OF_MEAN * grown[-1] / _QUARTERS)
