from __future__ import annotations

import itertools

import pytest

from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.schedule import Action, Schedule

SCHEDULE = Schedule(skip_first=2, wait=3, warmup=1, active=2)  # ..-AAWRR
SIGNS = {Action.IDLE: ".", Action.AUDIT: "A", Action.WARMUP: "W", Action.ACTIVE: "R"}


def drawn(plan: Plan, num_steps: int = 16) -> str:
    return "".join(SIGNS[plan.action(step)] for step in range(num_steps))


def test_a_plan_without_a_window_of_its_own_is_the_schedule() -> None:
    plan = Plan(SCHEDULE)
    for step in range(20):
        assert plan.action(step) is SCHEDULE.action(step)
        assert plan.next_change(step) == SCHEDULE.next_change(step)
    assert not plan.on_demand


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, "...AAWRRWRR....."),  # the first steps are left alone, and steps 2 to 4 would run into the audit
        (6, "...AAWRRWRR....."),
        (7, "...AAWRRWRR....."),
        (8, "...AAWRRWRR....."),
        (11, "...AAWRR...WRR.."),
    ],
)
def test_a_window_on_demand_comes_as_soon_as_there_is_room(step: int, expected: str) -> None:
    assert drawn(Plan(SCHEDULE).with_window(step)) == expected


def test_a_window_on_demand_may_come_before_the_first_of_the_schedule() -> None:
    plan = Plan(Schedule(skip_first=2, wait=6, warmup=1, active=2)).with_window(1)
    assert drawn(plan) == "..WRR.AAWRR....."
    assert plan.window(2) == plan.window(4) == range(3, 5)
    assert plan.window(8) == range(9, 11)
    assert [plan.is_first(window) for window in (range(3, 5), range(9, 11))] == [False, True]


def test_between_windows_without_room_none_is_looked_for() -> None:
    plan = Plan(Schedule(skip_first=0, wait=1, warmup=1, active=2, repeat=10**8)).with_window(50)
    assert plan.start == 4 * 10**8


def test_between_windows_with_room_the_next_gap_is_taken() -> None:
    plan = Plan(Schedule(skip_first=0, wait=4, warmup=1, active=2, repeat=10**8)).with_window(6)
    assert plan.start == 7
    assert plan.with_window(9).start == 14


@pytest.mark.parametrize("step", [0, 3, 6, 9, 12])
@pytest.mark.parametrize("repeat", [1, 3])
def test_up_to_the_next_change_nothing_changes_and_no_window_overlaps(step: int, repeat: int) -> None:
    schedule = Schedule(skip_first=2, wait=5, warmup=1, active=2, repeat=repeat)
    plan = Plan(schedule).with_window(step)
    for now in range(40):
        change = plan.next_change(now)
        assert change > now
        assert all(plan.action(later) is plan.action(now) for later in range(now, min(change, 60)))
    assert plan.start is not None
    own = range(plan.start, plan.on_demand.stop)
    assert all(schedule.action(busy) is Action.IDLE for busy in own)
    actions = [plan.action(now) for now in range(60)]
    lengths = [len(list(steps)) for action, steps in itertools.groupby(actions) if action is Action.ACTIVE]
    assert lengths == [2] * (repeat + 1)
