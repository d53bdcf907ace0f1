"""Takes up the steps of a fit as they end: judges each, and hands their times on, many at once.

Owns which steps are like the one before, so that counting them is all they need. Knows no window and no Trainer.
"""

from __future__ import annotations

from typing import Any

from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.live.compile_watch import CompileWatch
from lightning_perfwatch.live.gc_watch import GcWatch
from lightning_perfwatch.live.meter import Meter
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.step_judge import StepJudge
from lightning_perfwatch.live.steps import Kind, StepLog, are_pure

_STEPS_AT_ONCE = 256
_STEPS_ON_DEVICE = 64  # its events are to be read before there are too many


class StepIntake:
    """The steps between their end and their place in the log.

    Args:
        timer: has their times.
        marks: has those on the device's clock; None where that is the host's.
        budget: is told of them.
        steps: the log that they go to.
        meter: counts their batches.
        judge: judges them by the schedule.
        gc: knows the collections in them.
        compilations: knows what was compiled in them.
    """

    def __init__(
        self,
        timer: PhaseTimer,
        marks: DeviceMarks | None,
        budget: Budget,
        steps: StepLog,
        meter: Meter,
        judge: StepJudge,
        gc: GcWatch,
        compilations: CompileWatch,
    ) -> None:
        self._timer = timer
        self._marks = marks
        self._budget = budget
        self._steps = steps
        self._meter = meter
        self._judge = judge
        self._gc = gc
        self._compilations = compilations
        self._ended: list[Kind] = []  # steps that are still to be taken up
        self._most = _STEPS_AT_ONCE if marks is None else _STEPS_ON_DEVICE
        self._quiet_until = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time for :meth:`take_up`."""
        return len(self._ended) >= self._most

    def takes_quietly(self, step: int, batch: Any, *, is_disturbed: bool) -> bool:
        """Take the step number ``step``, that has just ended, if it is like the one before; a few µs, and most are."""
        timer = self._timer
        if (
            step >= self._quiet_until
            or is_disturbed
            or timer.num_epochs != self._judge.num_epochs
            or self._gc.has_collected
            or self._compilations.has_compiled
            or not self._meter.adds_alike(batch, timer.watch.last_ns)
        ):
            return False
        self._gc.add_steps(1)
        self._ended.append(self._judge.usual)
        return True

    def judge(self, step: int, *, is_disturbed: bool, is_recorded: bool) -> Kind:
        """The kind of the step that has just ended; to be followed by :meth:`add`."""
        kind = self._judge.judge(step, self._timer.num_epochs, is_disturbed=is_disturbed, is_recorded=is_recorded)
        if self._compilations.step_ended(step) and step > 0:
            kind = Kind.DISTURBED
        self._gc.step_ended(counts=kind <= Kind.EARLY)
        return kind

    def add(self, kind: Kind) -> None:
        """Take a step that the meter has counted."""
        self._ended.append(kind)

    def expect(self, step: int, idle_until: int) -> None:
        """All of the step number ``step`` is done: find out from which one on the next of them needs more than that.

        Nothing is planned to be done between steps before the step ``idle_until``.
        """
        if self._judge.usual > Kind.EARLY:
            self._quiet_until = 0
            return
        room = step + self._most - len(self._ended)
        self._quiet_until = min(room, self._judge.usual_until, idle_until - 1, self._meter.quiet_until(step))

    def take_up(self) -> None:
        """Hand on the times of the steps that have ended: many at once costs a tenth of each by itself."""
        self._quiet_until = 0
        ended, self._ended = self._ended, []
        if not ended:
            return
        parts = self._timer.take(len(ended))
        self._steps.add(parts, ended)
        own_ns = parts.slots_ns[:, list(self._timer.own_slots)].sum()
        self._budget.add_steps(float(parts.phases_ns.sum()) / 1e9, float(own_ns) / 1e9)
        self._meter.add(parts.phases_ns, are_pure(parts))
        if self._marks is not None:
            for measured, seconds in self._marks.read():
                self._steps.set_device(measured, seconds)
