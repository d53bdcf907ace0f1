from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

from lightning_perfwatch.live.schedule import Action, Schedule

LETTERS = {Action.IDLE: ".", Action.AUDIT: "a", Action.WARMUP: "w", Action.ACTIVE: "R"}


def drawn(schedule: Schedule, num_steps: int) -> str:
    return "".join(LETTERS[schedule.action(step)] for step in range(num_steps))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(), "..................aawwRRRRR....."),
        (Schedule(skip_first=1, wait=2, warmup=1, active=3), ".aawRRR....."),
        (Schedule(skip_first=1, wait=2, warmup=2, active=1, repeat=3), ".aawwR..wwR..wwR....."),
        (Schedule(skip_first=2, wait=0, warmup=1, active=2, repeat=2), "aawRRwRR....."),
        (Schedule(skip_first=1, wait=0, warmup=1, active=1), "awR....."),
        (Schedule(skip_first=0, wait=1, warmup=1, active=1), "awR....."),
        (Schedule(skip_first=0, wait=0, warmup=1, active=2), "wRRaa....."),
        (Schedule(skip_first=0, wait=0, warmup=1, active=2, repeat=2), "wRRwRRaa....."),
    ],
)
def test_every_step_has_its_action(schedule: Schedule, expected: str) -> None:
    assert drawn(schedule, len(expected)) == expected


@pytest.mark.parametrize(
    "fields",
    list(itertools.product((0, 1, 3), (0, 1, 2), (1, 2), (1, 4), (1, 5))),
    ids=lambda fields: "-".join(map(str, fields)),
)
def test_whatever_the_schedule_it_records_in_full_audits_once_and_then_rests(fields: tuple[int, ...]) -> None:
    skip_first, wait, warmup, active, repeat = fields
    schedule = Schedule(skip_first, wait, warmup, active, repeat)

    actions = [schedule.action(step) for step in range(schedule.end + 50)]

    assert actions.count(Action.ACTIVE) == active * repeat
    assert actions.count(Action.WARMUP) == warmup * repeat
    assert 1 <= actions.count(Action.AUDIT) <= 2
    assert set(actions[schedule.end + 2 :]) == {Action.IDLE}
    for step, action in enumerate(actions):
        if action in (Action.WARMUP, Action.ACTIVE):
            assert (step in schedule.window(step)) == (action is Action.ACTIVE)
            assert len(schedule.window(step)) == active
            assert 0 < schedule.window(step).stop - step <= warmup + active


@pytest.mark.parametrize("field", ["skip_first", "wait", "warmup", "active", "repeat"])
@pytest.mark.parametrize("value", ["1", 1.0, None, True, [1]])
def test_what_is_no_whole_number_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"Schedule\.{field} must be a whole number of steps, got .*{value!r}"[:60]):
        Schedule(**{field: value})


@pytest.mark.parametrize(
    ("field", "least"), [("skip_first", 0), ("wait", 0), ("warmup", 1), ("active", 1), ("repeat", 1)]
)
def test_the_least_value_is_taken_and_less_is_refused_by_name(field: str, least: int) -> None:
    Schedule(**{field: least})

    with pytest.raises(ValueError, match=rf"Schedule\.{field} must be at least {least}, got {least - 1}"):
        Schedule(**{field: least - 1})


def test_a_window_larger_than_any_analysis_needs_is_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schedule(active=100)

    with pytest.warns(UserWarning, match="active=2000 records more steps than an analysis needs") as caught:
        Schedule(active=2000)

    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "fields", [(10, 10, 2, 5, 1), (1, 2, 2, 1, 3), (0, 0, 1, 2, 2), (2, 0, 1, 2, 2), (5, 1, 1, 1, 1)]
)
def test_until_the_next_change_every_step_gets_the_same(fields: tuple[int, ...]) -> None:
    schedule = Schedule(*fields)

    for step in range(60):
        change = schedule.next_change(step)
        assert change > step
        assert {schedule.action(later) for later in range(step, min(change, 70))} == {schedule.action(step)}


def test_after_the_last_window_nothing_changes_any_more() -> None:
    assert Schedule().next_change(1000) >= 10**9
