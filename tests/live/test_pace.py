"""The fixed piece of work by which the machine's pace is told."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from lightning_perfwatch.live import pace
from lightning_perfwatch.live.pace import MOST_READINGS, WORK, PaceWatch


class Clock:
    """Each reading takes what comes next in ``durations_s``."""

    def __init__(self, durations_s: list[float]) -> None:
        self._times_s = iter([time_s for s in durations_s for time_s in (0.0, s)])

    def thread_time(self) -> float:
        return next(self._times_s)


def test_readings_are_taken_of_what_stands_for_the_run_and_outliers_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = PaceWatch()
    assert watch.use() is None
    monkeypatch.setattr(pace, "time", Clock([float(s) for s in range(1, 11)]))
    watch.edge(10, counts=False)
    for _ in range(10):
        watch.edge(10, counts=True)
    watch.edge(10, counts=False)

    found = watch.use()

    assert found is not None
    assert found.num_readings == 10
    assert found.work == f"{WORK}, numpy {np.__version__}"
    assert found.work_s == sum(range(2, 10)) / 8


def test_the_work_takes_time_and_keeps_a_bounded_number_of_readings() -> None:
    watch = PaceWatch()
    watch._work_s.extend([1e-3] * (2 * MOST_READINGS))
    watch.edge(1, counts=True)

    found = watch.use()

    assert found is not None
    assert found.num_readings == MOST_READINGS
    assert 1e-5 < min(watch._work_s) < 1e-3 + 1e-12


def test_the_work_leaves_every_random_state_as_it_is() -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]

    PaceWatch().edge(1, counts=True)

    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]
