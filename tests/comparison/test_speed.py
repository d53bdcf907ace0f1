from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lightning_perfwatch.comparison import Answer, compare
from lightning_perfwatch.comparison.speed import MOST_INTERVALS, coarse, main_rate, rate_of, samples_of
from lightning_perfwatch.measurements import LoaderInfo
from tests.comparison.factories import counted, noisy_durations, run, run_of

QUIET = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01)


def change_of(before_s: tuple[float, ...], after_s: tuple[float, ...]) -> Answer:
    change = compare(run(*before_s), run(*after_s)).main
    assert change is not None
    return change.answer


def times(factor: float) -> tuple[float, ...]:
    """The quiet run's intervals, longer by ``factor`` and with a noise of their own."""
    return tuple(factor * s for s in (0.99, 1.0, 1.01, 1.0, 0.98, 1.02, 1.01, 1.0))


def test_twice_the_speed_is_faster_and_its_interval_holds_two() -> None:
    change = compare(run(*QUIET), run(*times(0.5))).main

    assert change is not None
    assert (change.rate, change.answer) == ("tokens_per_s", Answer.FASTER)
    assert change.low is not None
    assert change.high is not None
    assert change.ratio == pytest.approx(2.0, rel=0.01)
    assert 1.85 < change.low < 1.9 < 2.1 < change.high < 2.15


def test_what_noise_explains_is_no_difference() -> None:
    assert change_of(QUIET, times(1.001)) is Answer.NO_DIFFERENCE


def test_what_two_runs_may_differ_by_is_called_small() -> None:
    assert change_of(QUIET, times(1.04)) is Answer.SMALL


def test_a_longer_step_is_slower() -> None:
    assert change_of(QUIET, times(1.2)) is Answer.SLOWER


def test_five_intervals_tell_nothing_and_six_do() -> None:
    assert change_of(QUIET[:5], times(2.0)) is Answer.NOT_TOLD
    assert change_of(QUIET, times(2.0)[:5]) is Answer.NOT_TOLD
    assert change_of(QUIET[:6], times(2.0)[:6]) is Answer.SLOWER


def test_the_same_run_twice_is_exactly_the_same() -> None:
    found = compare(run(), replace(run(), directory="/elsewhere"))

    assert found.is_same_run
    assert {(one.answer, one.ratio, one.low, one.high) for one in found.speed} == {(Answer.SAME_RUN, 1.0, 1.0, 1.0)}
    assert not compare(run(), run(*times(1.001))).is_same_run


def test_the_same_two_runs_always_give_the_same_answer() -> None:
    chance = np.random.default_rng(1)
    pair = run(*noisy_durations(chance)), run(*noisy_durations(chance))

    assert compare(*pair) == compare(*pair)


def test_only_the_judged_intervals_count() -> None:
    clean = counted(QUIET)
    first = replace(clean.intervals[0], duration_s=50.0, clean=False)

    assert samples_of(run_of(replace(clean, intervals=(first, *clean.intervals))), "steps_per_s")[1] == list(QUIET)


def test_samples_are_compared_where_one_run_does_not_know_its_tokens_and_then_steps() -> None:
    no_tokens = run_of(counted(QUIET, tokens=None))
    only_steps = run_of(counted(QUIET, tokens=None, samples=None))

    assert main_rate((run(), no_tokens)) == "samples_per_s"
    assert main_rate((run(), only_steps)) == "steps_per_s"
    assert main_rate((run(), run_of(None))) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_rate_that_is_no_speed_is_not_known(value: float) -> None:
    report = run(throughput=replace(run().throughput, tokens_per_s=value))

    assert rate_of(report, "tokens_per_s") is None
    assert main_rate((report,)) == "samples_per_s"


def test_a_rate_of_all_ranks_has_the_noise_of_the_first() -> None:
    eight = run(throughput=replace(run().throughput, tokens_per_s=160_000.0))
    change = compare(eight, replace(eight, throughput=replace(eight.throughput, tokens_per_s=320_000.0))).main

    assert change is not None
    assert change.ratio == 2.0
    assert change.answer is Answer.FASTER


def test_long_runs_are_taken_together_and_nothing_is_lost() -> None:
    many = list(counted([1.0] * (2 * MOST_INTERVALS + 1)).intervals)
    few = coarse(many, MOST_INTERVALS)

    assert len(few) <= MOST_INTERVALS
    assert sum(one.tokens or 0 for one in few) == sum(one.tokens or 0 for one in many)
    assert sum(one.duration_s for one in few) == pytest.approx(len(many))
    assert few[-1].last_step == many[-1].last_step
    assert coarse([replace(many[0], tokens=None), many[1]], 1)[0].tokens is None


def test_another_batch_size_is_judged_by_tokens() -> None:
    small = run(*QUIET)
    durations_s = times(2.0)
    large = run_of(counted(durations_s, samples=640, tokens=81_920), loader=LoaderInfo("DataLoader", batch_size=64))
    found = compare(small, large)
    by_rate = {one.rate: one.answer for one in found.speed}

    assert found.main_rate == "tokens_per_s"
    assert by_rate["tokens_per_s"] is Answer.FASTER
    assert by_rate["steps_per_s"] is Answer.SLOWER
