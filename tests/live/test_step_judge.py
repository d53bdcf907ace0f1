"""Which steps stand for the run."""

from __future__ import annotations

from collections.abc import Collection

from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.step_judge import StepJudge
from lightning_perfwatch.live.steps import Kind

SCHEDULE = Schedule(skip_first=2, wait=3, warmup=1, active=2)  # ..EaawRR
LETTERS = {Kind.STEADY: "S", Kind.EARLY: "e", Kind.EPOCH_START: "P", Kind.DISTURBED: "d", Kind.RECORDED: "R"}


def judged(
    num_steps: int, starts: Collection[int] = (0,), disturbed: Collection[int] = (), is_recorded: bool = True
) -> str:
    """The kinds, a letter each."""
    judge, num_epochs, kinds = StepJudge(SCHEDULE), 0, ""
    for step in range(num_steps):
        num_epochs += step in starts
        kind = judge.judge(step, num_epochs, is_disturbed=step in disturbed, is_recorded=is_recorded)
        kinds += LETTERS[kind]
    return kinds


def test_steps_are_judged_by_what_the_schedule_does_with_them() -> None:
    assert judged(12) == "PeSdddRRSSSS"


def test_the_first_step_of_an_epoch_is_none_of_the_steady_ones() -> None:
    assert judged(12, starts=(0, 9)) == "PeSdddRRSPSS"


def test_a_step_beside_other_work_is_not_judged_but_the_first_one_stays_what_it_is() -> None:
    assert judged(12, disturbed=(0, 9)) == "PeSdddRRSdSS"


def test_a_step_that_was_to_be_recorded_and_is_not_is_no_steady_one_either() -> None:
    assert judged(12, is_recorded=False) == "PeSdddddSSSS"
