"""Rule: some steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.measurements import PHASES, Seconds, StepTimes
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class StepJitter(Rule):
    """Some steps take much longer than the others, at regular intervals.

    What it is: every so many steps something stalls the training that the other steps do not do: a figure is drawn, an
    exponential average is written, data is synchronised, a cache is emptied.

    Why it costs: the stall is paid by all steps; 300 ms every 25 steps are 12 ms per step, and an average hides it.

    How it is measured: the steady steps without their wait for data and without hooks and callbacks, which have rules
    of their own (``dataloader-starvation``, ``slow-hook``). A step stalls if it exceeds the median by ``stall_factor``
    and by five times the usual deviation from it. The share is what all stalls exceed the median by, over the time of
    all steps. They are regular if most lie equally many steps apart; accumulated gradients, whose last batch does more,
    are no stall.

    Fix: do what the named phase does every so many steps more rarely or on another thread.

    Silent when: the stalls cost under 5 % of the time, there are fewer than ``min_stalls``, or fewer than ``min_steps``
    steps. Irregular stalls are only information, from 10 % on: they may come from other work on the machine.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    irregular_share: float = 0.1
    stall_factor: float = 1.5
    min_stalls: int = 3
    min_steps: int = 20

    needs: ClassVar[tuple[str, ...]] = ("steps",)
    symptom_of: ClassVar[tuple[str, ...]] = ("gc-pause", "recompilation", "cpu-oversubscription", "allocator-retries")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and when there are too few steps."""
        reason = super().skip_reason(evidence)
        if reason is None and evidence.steps is not None and evidence.steps.num_steps < self.min_steps:
            return f"{evidence.steps.num_steps} steady steps are too few, {self.min_steps} are needed"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.steps is not None
        own = _own_phases(evidence)
        step_s = evidence.steps.exposed_s[:, own].sum(axis=1)
        total_s, usual_s = float(evidence.steps.step_s.sum()), float(np.median(step_s))
        excess_s = step_s - usual_s
        deviation_s = float(np.median(np.abs(excess_s)))
        stalls = np.flatnonzero((step_s > self.stall_factor * usual_s) & (excess_s > _DEVIATIONS * deviation_s))
        if len(stalls) < self.min_stalls or total_s <= 0 or usual_s <= 0:
            return
        share = min(1.0, float(excess_s[stalls].sum()) / total_s)
        period = _period(stalls, len(step_s))
        accumulated = 1 if evidence.run is None else evidence.run.accumulate_grad_batches
        if period is not None and accumulated > 1 and period % accumulated == 0 and _is_of(evidence.steps, stalls, own):
            return
        if share >= (self.warning_share if period is not None else self.irregular_share):
            yield self._finding(evidence.steps, stalls, float(excess_s[stalls].mean()), share, period, own)

    def _finding(
        self,
        steps: StepTimes,
        stalls: npt.NDArray[np.int64],
        stall_s: float,
        share: float,
        period: int | None,
        own: list[int],
    ) -> Finding:
        phase = PHASES[_slow_phase(steps.exposed_s, stalls, own)]
        p50, p95 = np.percentile(steps.step_s, [50, 95]).tolist()
        severity = Severity.of(share, self.warning_share, self.critical_share)
        when = f"Every {period} steps" if period is not None else f"In {len(stalls)} of {steps.num_steps} steps"
        regular = "" if period is not None else ", at no regular interval"
        return Finding(
            rule=self.id(),
            severity=severity if period is not None else Severity.INFO,
            share=share,
            summary=f"{when} the {_SPOKEN.get(phase, phase)} takes {stall_s * 1e3:.0f} ms longer{regular}: that is "
            f"{100 * share:.0f} % of the time (step p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms).",
            advice=f"Do what happens there every {period} steps more rarely, or on another thread."
            if period is not None
            else "Look for other work on this machine, and for what the step does only sometimes.",
            evidence={
                "period_steps": period,
                "stall_s": stall_s,
                "num_stalls": len(stalls),
                "num_steps": steps.num_steps,
                "phase": phase,
                "p50_s": p50,
                "p95_s": p95,
            },
        )


_DEVIATIONS = 5.0
_REGULAR = 0.7
"""So many of the distances between stalls must be the same (one step more or less, for steps that were left out), and
so many of the stalls that fit into the run must be there."""
_SHORT = 4
"""Up to here they must be exactly the same: frequent stalls at random are some two steps apart, one more or less."""

_SPOKEN = {
    "transfer": "copy of the batch",
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer",
    "callbacks": "callbacks and hooks",
    "other": "training loop",
}


def _own_phases(evidence: Evidence) -> list[int]:
    """The phases that no other rule judges by itself."""
    others = {"data_wait"} | (set() if evidence.hooks is None else {"callbacks"})
    return [column for column, phase in enumerate(PHASES) if phase not in others]


def _period(stalls: npt.NDArray[np.int64], num_steps: int) -> int | None:
    """The number of steps between stalls, None where they are not regular, or where most of what fits is missing."""
    distances = np.diff(stalls)
    if len(distances) < 2:
        return None
    usual = int(np.median(distances))
    tolerance = 0 if usual <= _SHORT else max(1, 0.05 * usual)
    near = np.abs(distances - usual) <= tolerance
    lasts = usual > 1 and len(stalls) >= _REGULAR * num_steps / usual
    return usual if lasts and float(near.mean()) >= _REGULAR else None


def _slow_phase(exposed_s: Seconds, stalls: npt.NDArray[np.int64], own: list[int]) -> int:
    excess_s = exposed_s[stalls].mean(axis=0) - np.median(exposed_s, axis=0)
    return max(own, key=lambda column: float(excess_s[column]))


def _is_of(steps: StepTimes, stalls: npt.NDArray[np.int64], own: list[int]) -> bool:
    """Whether these stalls are in a phase that the last accumulated batch makes longer."""
    return PHASES[_slow_phase(steps.exposed_s, stalls, own)] in ("optimizer", "backward")
