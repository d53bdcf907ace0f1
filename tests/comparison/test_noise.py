from __future__ import annotations

import math

import numpy as np
import pytest

from lightning_perfwatch.comparison.noise import (
    USUAL_RUN_SD,
    between_runs,
    block_length,
    deviations,
    of_two_runs,
    quantile_sd,
    student_t,
    within_runs,
)
from tests.comparison.factories import noisy_durations


@pytest.mark.parametrize(
    ("probability", "degrees", "exact"),
    [
        (0.975, 2, 4.303),
        (0.975, 5, 2.571),
        (0.995, 3, 5.841),
        (0.995, 4, 4.604),
        (0.995, 13, 3.012),
        (0.975, 60, 2.000),
    ],
)
def test_the_quantiles_of_students_t_are_those_of_published_tables(
    probability: float, degrees: float, exact: float
) -> None:
    assert student_t(probability, degrees) == pytest.approx(exact, rel=0.01)


def test_values_that_follow_from_each_other_are_drawn_in_longer_blocks() -> None:
    chance = np.random.default_rng(1)
    alone = np.array(noisy_durations(chance, 300, follow=0.0))
    close = np.array(noisy_durations(chance, 300, follow=0.9))

    assert block_length(close) > block_length(alone) == math.ceil(1.3 * math.sqrt(300))
    assert block_length(np.ones(50)) == 1
    assert block_length(np.arange(7.0)) == 2


def test_draws_vary_as_the_mean_of_independent_values_does() -> None:
    durations_s = noisy_durations(np.random.default_rng(2), 400, within=0.1, follow=0.0)
    off, degrees = deviations([1.0] * 400, durations_s, stream=0)

    assert off.std() == pytest.approx(0.1 / math.sqrt(400), rel=0.25)
    assert degrees == pytest.approx(400 / math.ceil(1.3 * 20) - 1)


def test_a_quantile_varies_as_theory_says() -> None:
    """The p-quantile of n independent values has the variance p (1 - p) / (n f**2), f their density there."""
    values = noisy_durations(np.random.default_rng(2), 400, within=0.1, follow=0.0, between=0.0)
    density = 0.28 / 0.1  # of the normal distribution at its 0.8-quantile

    assert quantile_sd(values, 0.8, stream=0) == pytest.approx(math.sqrt(0.16 / 400) / density, rel=0.3)
    assert quantile_sd([1.0] * 8, 0.8, stream=0) == 0.0


def test_two_runs_that_are_quiet_within_may_differ_all_the_same() -> None:
    """1.96 times 2 % for each of them, and both kinds of noise add up as squares."""
    assert of_two_runs((1.0, 1.0), 0.95) == pytest.approx((1 / 1.057, 1.057), abs=0.001)
    low, high = of_two_runs((math.exp(-0.1), math.exp(0.2)), 0.95)
    assert math.log(low) == pytest.approx(-math.hypot(0.1, 0.0554), abs=0.001)
    assert math.log(high) == pytest.approx(math.hypot(0.2, 0.0554), abs=0.001)


def test_the_same_values_always_give_the_same_draws_and_two_runs_have_their_own() -> None:
    durations_s = noisy_durations(np.random.default_rng(3))
    first, again, other = (deviations([1.0] * 30, durations_s, stream)[0] for stream in (0, 0, 1))

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_intervals_that_never_vary_leave_no_noise() -> None:
    still = deviations([1.0] * 8, [0.5] * 8, 0), deviations([1.0] * 8, [0.5] * 8, 1)

    assert within_runs(*still, level=0.95) == (1.0, 1.0)


@pytest.mark.parametrize(("num", "follow", "least"), [(12, 0.5, 0.9), (30, 0.0, 0.92), (30, 0.5, 0.92)])
def test_the_interval_of_two_runs_keeps_its_word(num: int, follow: float, least: float) -> None:
    """Two runs of the same speed, 200 times: how often the interval of their ratio holds 1."""
    hits = 0
    for seed in range(200):
        chance = np.random.default_rng(seed)
        runs = [noisy_durations(chance, num, within=0.05, between=0.0, follow=follow) for _ in range(2)]
        ratio = sum(runs[0]) / sum(runs[1])
        low, high = within_runs(deviations([1.0] * num, runs[0], 0), deviations([1.0] * num, runs[1], 1), 0.95)
        hits += ratio * low <= 1.0 <= ratio * high

    assert least <= hits / 200 < 1.0


def test_one_run_alone_is_given_the_usual_spread_and_many_tell_their_own() -> None:
    assert between_runs([1.0], 0.99) == pytest.approx(4.604 * USUAL_RUN_SD * math.sqrt(2), rel=0.01)
    still, wide = between_runs([1.0] * 10, 0.99), between_runs([0.9, 1.1] * 5, 0.99)
    assert still < 0.04 < 0.25 < wide


def test_further_runs_lie_where_they_are_expected() -> None:
    """Of 2000 further runs, as many lie outside as promised, or fewer: the assumed spread is the true one."""
    chance = np.random.default_rng(4)
    outside = 0
    for _ in range(2000):
        logs = USUAL_RUN_SD * chance.standard_normal(6)
        outside += abs(logs[5] - logs[:5].mean()) > between_runs(list(logs[:5]), 0.99)

    assert outside / 2000 <= 0.012
