"""Silence on steps that only vary, and one finding for each drift."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.live.drift import DriftWatch


def interval(
    steps_s: Iterable[float], tokens: int | None = 100, samples: int | None = 4, clean: bool = True
) -> Interval:
    """Steps with so many tokens and samples each."""
    steps_s = list(steps_s)
    num = len(steps_s)
    return Interval(
        num - 1,
        num,
        sum(steps_s),
        samples=None if samples is None else samples * num,
        tokens=None if tokens is None else tokens * num,
        clean=clean,
    )


def found(watch: DriftWatch, intervals: Iterable[Interval]) -> list[tuple[int, str]]:
    """Number of each interval that showed a drift, and what was said."""
    said = ((number, watch.add(one)) for number, one in enumerate(intervals))
    return [(number, text) for number, text in said if text is not None]


def test_a_step_that_takes_longer_is_found_once_and_told_with_both_times() -> None:
    fast, slow = interval([0.1] * 10), interval([0.18] * 10)

    assert found(DriftWatch(1.5, 3.0, 2), [fast] * 10 + [slow] * 50) == [
        (12, "drift: the step takes 1.8 times its steady state (180 ms against 100 ms)")
    ]


def test_long_steps_are_told_in_full() -> None:
    fast, slow = interval([1.13] * 10), interval([2.9301] * 10)

    ((_, text),) = found(DriftWatch(1.5, 3.0, 1), [fast] * 10 + [slow] * 10)
    assert text == "drift: the step takes 2.6 times its steady state (2,930 ms against 1,130 ms)"


def test_it_has_to_last() -> None:
    fast, slow = interval([0.1] * 10), interval([0.5] * 10)

    assert found(DriftWatch(1.5, 15.0, 2), ([fast] * 20 + [slow] * 2) * 10) == []


def test_each_drift_is_found_once_up_to_the_limit() -> None:
    levels = [interval([0.1 * 2**n] * 10) for n in range(5)]
    run = [one for level in levels for one in [level] * 12]

    assert [number // 12 for number, _ in found(DriftWatch(1.5, 3.0, 3), run)] == [1, 2, 3]
    assert found(DriftWatch(1.5, 3.0, 0), run) == []
    assert found(DriftWatch(None, 3.0, 3), run) == []


def test_a_step_that_grows_slowly_is_found_too() -> None:
    run = [interval([0.1 * (1 + n / 200)] * 10) for n in range(200)]

    assert len(found(DriftWatch(1.5, 3.0, 2), run)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_vary_are_no_drift(seed: int) -> None:
    """Each step within a factor of two, one in a hundred ten times as long, and now and then some slow seconds."""
    random = np.random.default_rng(seed)
    steps_s = 0.02 * random.lognormal(0, 0.35, size=(4000, 50))
    steps_s[random.random(steps_s.shape) < 0.01] *= 10
    for start in range(100, 4000, 400):
        steps_s[start : start + 3] *= 2  # for some seven seconds

    assert found(DriftWatch(1.5, 10.0, 2), (interval(steps.tolist()) for steps in steps_s)) == []


def test_short_intervals_are_judged_together() -> None:
    random = np.random.default_rng(0)
    steps_s = 0.002 * random.lognormal(0, 0.8, size=20_000)

    assert found(DriftWatch(1.5, 3.0, 2), (interval([step]) for step in steps_s.tolist())) == []


def test_larger_batches_are_no_drift_and_a_slower_token_is_one() -> None:
    small, large = interval([0.1] * 10), interval([0.2] * 10, tokens=200, samples=8)
    slower = interval([0.2] * 10, tokens=100)

    assert found(DriftWatch(1.5, 3.0, 2), [small] * 10 + [large] * 20) == []
    assert len(found(DriftWatch(1.5, 3.0, 2), [small] * 10 + [slower] * 20)) == 1


def test_smaller_batches_are_no_drift_although_each_token_takes_longer() -> None:
    assert found(DriftWatch(1.5, 3.0, 2), [interval([0.1] * 10)] * 10 + [interval([0.1] * 10, tokens=20)] * 20) == []


@pytest.mark.parametrize("samples", [4, None])
def test_without_tokens_samples_are_counted_and_without_both_the_steps(samples: int | None) -> None:
    fast, slow = (interval([step] * 10, tokens=None, samples=samples) for step in (0.1, 0.2))

    assert len(found(DriftWatch(1.5, 3.0, 2), [fast] * 10 + [slow] * 20)) == 1


def test_intervals_that_do_not_stand_for_the_run_are_passed_over() -> None:
    fast, profiled = interval([0.1] * 10), interval([0.5] * 10, clean=False)

    assert found(DriftWatch(1.5, 3.0, 2), [profiled] * 10 + [fast] * 10 + [profiled] * 10 + [fast] * 10) == []
