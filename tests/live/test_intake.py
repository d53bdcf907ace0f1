"""Which steps are only counted, and that nothing which happens in a step is missed for it."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.live import compile_watch
from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.compile_watch import CompileWatch
from lightning_perfwatch.live.gc_watch import GcWatch
from lightning_perfwatch.live.intake import StepIntake
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.step_judge import StepJudge
from lightning_perfwatch.live.steps import Kind, StepLog

NEVER = 10**9
SCHEDULE = Schedule(skip_first=2, wait=1000, warmup=1, active=1)


class Fit:
    """Steps that end one after the other; the meter finds them all alike and never has an interval to end."""

    def __init__(self, *, on_device: bool = False) -> None:
        self.timer = PhaseTimer("own")
        self.timer.watch.stack[-1] = self.timer.loop
        self.gc = GcWatch()
        self.compilations = CompileWatch()
        self.judge = StepJudge(SCHEDULE)
        self.log = StepLog()
        self.alike = True
        self.added = 0
        meter: Any = SimpleNamespace(adds_alike=self._adds_alike, quiet_until=lambda step: NEVER, add=self._add)
        marks: Any = SimpleNamespace(read=lambda: []) if on_device else None
        self.intake = StepIntake(
            self.timer, marks, Budget(None), self.log, meter, self.judge, self.gc, self.compilations
        )
        self.step = 0

    def _adds_alike(self, batch: Any, now_ns: int) -> bool:
        return self.alike

    def _add(self, phases_ns: Any, are_pure: Any) -> None:
        self.added += len(phases_ns)

    def ends(self, *, is_disturbed: bool = False, idle_until: int = NEVER) -> bool:
        """One more step is over; whether it was only counted."""
        step, self.step = self.step, self.step + 1
        self.timer.end_step()
        if self.intake.takes_quietly(step, None, is_disturbed=is_disturbed):
            return True
        self.intake.add(self.intake.judge(step, is_disturbed=is_disturbed, is_recorded=False))
        if self.intake.is_full:
            self.intake.take_up()
        self.intake.expect(step, idle_until)
        return False

    def become_quiet(self) -> None:
        """Past the steps that the schedule skips."""
        for _ in range(20):
            self.ends()


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> Fit:
    monkeypatch.setattr(compile_watch, "_num_compiled", lambda: 0)
    fit = Fit()
    fit.become_quiet()
    return fit


def test_steps_without_an_event_are_only_counted(fit: Fit) -> None:
    assert all(fit.ends() for _ in range(50))


def test_steps_before_the_first_action_of_a_plan_are_only_counted_up_to_it(fit: Fit) -> None:
    fit.alike = False
    fit.ends(idle_until=fit.step + 4)
    fit.alike = True

    assert [fit.ends() for _ in range(4)] == [True, True, False, True]


def test_a_disturbed_step_is_judged_and_so_is_the_next_epochs_first(fit: Fit) -> None:
    assert not fit.ends(is_disturbed=True)
    assert fit.ends()
    fit.timer.num_epochs += 1
    assert not fit.ends()
    assert fit.ends()


def test_a_step_with_a_collection_is_judged_and_its_collection_counts(fit: Fit) -> None:
    num_before = fit.step
    fit.gc.start()
    try:
        gc.collect()
        assert not fit.ends()
        assert fit.ends()
    finally:
        fit.gc.stop()

    pauses, num_uncounted = fit.gc.pauses(0.1), 1  # the first begins an epoch
    assert pauses is not None
    assert pauses[2].num_collections == 1
    assert pauses[2].num_steps == num_before + 2 - num_uncounted


def test_a_step_in_which_something_was_compiled_is_judged(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_watch, "_num_compiled", lambda: 1)

    assert not fit.ends()
    assert fit.ends()


def test_a_batch_that_counts_otherwise_is_not_taken_quietly(fit: Fit) -> None:
    fit.alike = False

    assert not fit.ends()


@pytest.mark.parametrize(("on_device", "most"), [(False, 256), (True, 64)])
def test_all_steps_reach_the_log_in_time(on_device: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_watch, "_num_compiled", lambda: 0)
    fit = Fit(on_device=on_device)

    for _ in range(1000):
        fit.ends()
        assert fit.step - fit.added <= most

    fit.intake.take_up()
    assert fit.added == 1000
    times = fit.log.step_times()
    assert times is not None
    assert len(times.step_s) == 1000 - SCHEDULE.skip_first
    assert np.all(times.step_s > 0)


def test_a_plan_that_is_changed_is_seen_with_the_next_step_that_is_judged(fit: Fit) -> None:
    fit.judge.replan(Plan(SCHEDULE).with_window(fit.step + 2))
    fit.intake.take_up()

    assert not fit.ends()
    kinds = [fit.intake.judge(step, is_disturbed=False, is_recorded=True) for step in range(fit.step, fit.step + 3)]
    assert Kind.RECORDED in kinds
