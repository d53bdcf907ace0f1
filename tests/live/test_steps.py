from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.phases import OUTSIDE, StepParts
from lightning_perfwatch.live.steps import MOST_STEPS, Kind, StepLog, epoch_starts
from lightning_perfwatch.measurements import PHASES, EpochStart, HookTime

MEANINGS = [
    Meaning(Part.OTHER),
    Meaning(Part.CALLBACKS, "EMA", "on_train_batch_end"),
    Meaning(Part.CALLBACKS, "PerfWatch", "on_train_batch_end"),
    Meaning(Part.CALLBACKS, "Slow", "on_before_backward"),
]
EMA, OWN, SLOW = 1, 2, 3


def parts(*ms: float, hooks: dict[int, float] | None = None, **outside_ms: float) -> StepParts:
    """Steps whose forward passes take ``ms``; all of them have the same hooks and the same beside them."""
    phases_ns = np.zeros((len(ms), len(PHASES)), dtype=np.int64)
    phases_ns[:, PHASES.index("forward")] = np.round(np.array(ms) * 1e6)
    outside_ns = np.zeros((len(ms), len(OUTSIDE)), dtype=np.int64)
    for name, part_ms in outside_ms.items():
        outside_ns[:, OUTSIDE.index(Part(name))] = round(part_ms * 1e6)
    slots_ns = np.zeros((len(ms), max(hooks or {0: 0.0}) + 1), dtype=np.int64)
    for slot, hook_ms in (hooks or {}).items():
        slots_ns[:, slot] = round(hook_ms * 1e6)
    return StepParts(phases_ns, outside_ns, slots_ns)


def log_of(*steps: tuple[float, Kind], at_once: int = 2, **arguments: Any) -> StepLog:
    log = StepLog(**arguments)
    for first in range(0, len(steps), at_once):
        some = steps[first : first + at_once]
        log.add(parts(*(ms for ms, _ in some)), [kind for _, kind in some])
    return log


def host_ms(log: StepLog) -> list[float]:
    times = log.step_times()
    return [] if times is None else [round(float(s) * 1e3, 6) for s in times.host_s[:, PHASES.index("forward")]]


def device_ms(log: StepLog) -> list[float] | None:
    times = log.step_times()
    assert times is not None
    return None if times.device_s is None else [round(float(s) * 1e3, 6) for s in times.device_s.sum(axis=1)]


def test_without_steps_nothing_is_known() -> None:
    log = StepLog()

    assert log.step_times() is None
    assert log.hook_times(MEANINGS, set()) is None
    assert log.own_hooks(MEANINGS, {OWN}) == ({}, 0)
    assert log.wall_s() == {"training": 0, "validation": 0, "checkpoint": 0, "epoch_start": 0, "capture": 0}


def test_a_step_keeps_every_phase_in_seconds() -> None:
    log = StepLog()
    phases_ns = np.array([[number * 10**6 for number in range(len(PHASES))]] * 3)
    nothing = np.zeros((3, len(OUTSIDE)), dtype=np.int64)
    log.add(StepParts(phases_ns, nothing, phases_ns), [Kind.STEADY] * 3)

    times = log.step_times()

    assert times is not None
    np.testing.assert_allclose(times.host_s, [[0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006]] * 3)
    assert times.device_s is None


@pytest.mark.parametrize(
    ("kinds", "judged"),
    [
        ("SSS", [0, 1, 2]),
        ("PEESSS", [3, 4, 5]),
        ("PEESS", [1, 2, 3, 4]),
        ("PES", [0, 1, 2]),
        ("P", [0]),
        ("PDDSSDSPS", [3, 4, 6, 8]),
        ("DDDDS", [4]),
        ("DDD", []),
    ],
)
def test_the_steadiest_steps_are_judged_as_soon_as_there_are_three(kinds: str, judged: list[int]) -> None:
    of = {"S": Kind.STEADY, "E": Kind.EARLY, "P": Kind.EPOCH_START, "D": Kind.DISTURBED}

    log = log_of(*((float(step), of[letter]) for step, letter in enumerate(kinds)))

    assert host_ms(log) == judged


def test_a_long_run_keeps_its_newest_steps_in_their_order_and_the_time_of_all() -> None:
    log = log_of(*((float(step), Kind.STEADY) for step in range(MOST_STEPS + 5)))

    assert host_ms(log) == list(range(5, MOST_STEPS + 5))
    assert log.wall_s()["training"] == pytest.approx(sum(range(MOST_STEPS + 5)) / 1e3)


def test_the_devices_times_lie_beside_the_hosts_of_the_same_step() -> None:
    log = log_of(*((float(step), Kind.STEADY) for step in range(6)), on_device=True)
    for row in (4, 1, 2):
        log.set_device(row, np.full(len(PHASES), row / 100))

    assert host_ms(log) == [1, 2, 4]
    assert device_ms(log) == [70, 140, 280]


def test_where_the_device_has_measured_no_judged_step_the_host_tells() -> None:
    log = log_of((1.0, Kind.DISTURBED), *[(2.0, Kind.STEADY)] * 3, on_device=True)
    log.set_device(0, np.ones(len(PHASES)))

    assert host_ms(log) == [2, 2, 2]
    assert device_ms(log) is None


def test_a_measurement_that_comes_after_its_step_has_gone_is_not_taken_for_a_newer_one() -> None:
    log = log_of(*[(1.0, Kind.STEADY)] * (MOST_STEPS + 2), on_device=True)
    log.set_device(1, np.full(len(PHASES), 9.0))
    log.set_device(2, np.full(len(PHASES), 0.001))

    assert device_ms(log) == [7]


def test_a_new_step_does_not_inherit_the_devices_time_of_the_one_whose_place_it_takes() -> None:
    log = StepLog(on_device=True)
    for row in range(MOST_STEPS):
        log.add(parts(1.0), [Kind.STEADY])
        log.set_device(row, np.full(len(PHASES), 0.001))
    log.add(parts(2.0), [Kind.STEADY])

    measured = device_ms(log)
    assert measured is not None
    assert len(measured) == MOST_STEPS - 1


def test_a_device_that_was_not_asked_for_is_not_kept() -> None:
    log = log_of((1.0, Kind.STEADY))
    log.set_device(0, np.ones(len(PHASES)))

    assert device_ms(log) is None


def test_hooks_are_means_over_all_judged_steps_the_longest_first() -> None:
    log = StepLog()
    for hooks in ({EMA: 1.0, SLOW: 5.0}, {EMA: 2.0, OWN: 100.0}, {EMA: 3.0}, {}):
        log.add(parts(10.0, hooks=hooks), [Kind.STEADY])
    log.add(parts(10.0, hooks={EMA: 1000.0}), [Kind.DISTURBED])

    assert log.hook_times(MEANINGS, {OWN}) == (
        HookTime("EMA", "on_train_batch_end", s_per_step=0.0015, max_s=0.003),
        HookTime("Slow", "on_before_backward", s_per_step=0.00125, max_s=0.005),
    )
    assert log.own_hooks(MEANINGS, {OWN}) == ({"on_train_batch_end": 0.1}, 4)


def test_hooks_of_a_short_run_are_added_up_over_the_kinds_that_are_judged() -> None:
    log = StepLog()
    log.add(parts(1.0, hooks={EMA: 4.0}), [Kind.EPOCH_START])
    log.add(parts(1.0, hooks={EMA: 1.0}), [Kind.STEADY])

    assert log.hook_times(MEANINGS, set()) == (HookTime("EMA", "on_train_batch_end", s_per_step=0.0025, max_s=0.004),)


def test_a_run_without_hooks_has_none_rather_than_unknown_ones() -> None:
    assert log_of((1.0, Kind.STEADY)).hook_times(MEANINGS, set()) == ()


def test_the_wall_clock_counts_every_step_and_what_lies_between_them() -> None:
    log = StepLog()
    log.add(parts(10.0, validation=500.0, edge=2.0), [Kind.DISTURBED])
    log.add(parts(20.0, validation=50.0, checkpoint=7.0, edge=1.0), [Kind.STEADY])
    log.add_outside(parts(99.0, epoch_start=3.0, capture=4.0))

    assert log.wall_s() == pytest.approx(
        {"training": 0.033, "validation": 0.55, "checkpoint": 0.007, "epoch_start": 0.003, "capture": 0.004}
    )


def test_the_starts_of_epochs_are_numbered_and_in_seconds() -> None:
    assert epoch_starts([], 0) == ()
    assert epoch_starts([(2_000_000_000, 500_000_000), (0, 1)], 5) == (
        EpochStart(epoch=3, iterator_s=2.0, first_wait_s=0.5),
        EpochStart(epoch=4, iterator_s=0.0, first_wait_s=1e-9),
    )


def test_the_newest_steps_are_told_whatever_their_kind() -> None:
    log = log_of((1.0, Kind.STEADY), (2.0, Kind.RECORDED), (3.0, Kind.DISTURBED))

    assert StepLog().newest_step_s(3) is None
    assert log.newest_step_s(2) == pytest.approx([0.002, 0.003])
    assert log.newest_step_s(100) == pytest.approx([0.001, 0.002, 0.003])


def test_the_newest_steps_wrap_around_the_end_of_the_memory() -> None:
    log = StepLog()
    log.add(parts(*[1.0] * (MOST_STEPS - 1)), [Kind.STEADY] * (MOST_STEPS - 1))
    log.add(parts(2.0, 3.0, 4.0), [Kind.STEADY] * 3)

    assert log.newest_step_s(4) == pytest.approx([0.001, 0.002, 0.003, 0.004])


def test_on_a_device_the_newest_steps_are_those_that_its_clock_has_measured() -> None:
    """The host runs ahead of the device: its own times would say nothing of how long a step takes."""
    log = log_of((1.0, Kind.STEADY), (1.0, Kind.STEADY), (1.0, Kind.STEADY), on_device=True)
    assert log.newest_step_s(3) is None

    log.set_device(1, np.full(len(PHASES), 0.01))
    assert log.newest_step_s(3) == pytest.approx([0.07])
