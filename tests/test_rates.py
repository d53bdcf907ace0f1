from __future__ import annotations

import math
import random
from typing import Any

import pytest

from lightning_perfwatch.counts import Counted, Interval, Spread
from lightning_perfwatch.measurements import RankSummary
from lightning_perfwatch.rates import FEWEST_INTERVALS, Rates, spread


def interval(**changes: Any) -> Interval:
    known: dict[str, Any] = {"last_step": 10, "num_steps": 10, "duration_s": 2.0, "samples": 40, "tokens": 4000}
    return Interval(**{**known, **changes})


def counted(*intervals: Interval) -> Counted:
    return Counted(num_batches=20, num_optimizer_steps=20, samples=80, tokens=8000, intervals=intervals)


def rank(number: int, tokens_per_s: float | None, **changes: Any) -> RankSummary:
    return RankSummary(number, "node", tokens_per_s, 20.0, 0.2, 0.1, **changes)


def test_clean_intervals_are_preferred() -> None:
    first = interval(duration_s=100.0, clean=False)

    assert Rates.of(counted(first, interval(), interval(duration_s=3.0))) == Rates(
        tokens_per_s=1600.0, samples_per_s=16.0, steps_per_s=4.0
    )


def test_a_short_run_is_judged_without_its_first_interval_and_at_last_by_it() -> None:
    slow, fast = interval(duration_s=100.0, clean=False), interval(clean=False)

    assert Rates.of(counted(slow, fast)).tokens_per_s == 2000.0
    assert Rates.of(counted(slow)).tokens_per_s == 40.0


@pytest.mark.parametrize("intervals", [(), (interval(duration_s=0.0),)], ids=["no interval", "no time"])
def test_no_time_gives_no_rate(intervals: tuple[Interval, ...]) -> None:
    assert Rates.of(counted(*intervals)) == Rates(None, None, None)


def test_an_unknown_amount_makes_its_own_rate_unknown_and_no_other() -> None:
    assert Rates.of(counted(interval(), interval(tokens=None))) == Rates(None, 20.0, 5.0)


def test_tokens_without_padding_have_a_rate_of_their_own() -> None:
    found = Rates.of(counted(interval(nonpadding_tokens=3000), interval(nonpadding_tokens=1000)))

    assert (found.tokens_per_s, found.nonpadding_tokens_per_s) == (2000.0, 1000.0)


def test_each_rate_has_the_spread_of_its_intervals() -> None:
    durations_s = (1.0, 2.0, 4.0, 5.0, 8.0, 10.0)
    found = Rates.of(counted(*(interval(duration_s=s) for s in durations_s))).intervals

    assert found == {
        "tokens_per_s": Spread(900.0, 400.0, 4000.0, 6),
        "samples_per_s": Spread(9.0, 4.0, 40.0, 6),
        "steps_per_s": Spread(2.25, 1.0, 10.0, 6),
    }
    assert Rates.of(counted(*(interval() for _ in range(FEWEST_INTERVALS - 1)))).intervals == {}


@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (30, 10), (50, 18), (100, 40)]
)
def test_the_ranks_of_the_interval_are_those_of_published_tables(n: int, rank: int) -> None:
    """The ranks for 95 % in the tables of the sign test's confidence interval, such as in Conover's textbook."""
    found = spread(range(1, n + 1))

    assert found is not None
    assert (found.low, found.high, found.num_intervals) == (rank, n + 1 - rank, n)


@pytest.mark.parametrize("n", [*range(6, 40), 500, 4096])
def test_the_interval_encloses_the_median_in_95_of_100_cases_and_none_narrower_does(n: int) -> None:
    found = spread(range(n))
    assert found is not None
    below = int(found.low)  # as many values lie below the lower end

    def outside(k: int) -> float:
        """How likely it is that at most ``k`` of ``n`` values lie below the median, or at most ``k`` above it."""
        return float(2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)

    assert outside(below) <= 0.05 < outside(below + 1)


def test_the_interval_holds_its_promise_for_a_skewed_distribution() -> None:
    chance = random.Random(5)
    hits = 0
    for _ in range(2000):
        found = spread(chance.expovariate(1.0) for _ in range(25))
        assert found is not None
        hits += found.low <= math.log(2) <= found.high

    assert 0.94 < hits / 2000 < 0.98  # 95.7 % by the binomial distribution


def test_the_same_values_always_give_the_same_interval_in_any_order() -> None:
    values = [random.Random(1).random() for _ in range(40)]
    assert spread(values) == spread(reversed(values))


def test_rates_of_all_ranks_are_summed_and_so_is_their_spread() -> None:
    spreads = [{"tokens_per_s": Spread(10.0, 9.0, 12.0, 8)}, {"tokens_per_s": Spread(30.0, 28.0, 33.0, 7)}]
    ranks = [rank(0, 10.0, intervals=spreads[0]), rank(1, 31.0, intervals=spreads[1])]
    own = Rates.of(counted(*(interval() for _ in range(6))))

    of_all = own.over(ranks)

    assert (of_all.tokens_per_s, of_all.samples_per_s, of_all.steps_per_s) == (41.0, 40.0, 5.0)
    assert of_all.intervals["tokens_per_s"] == Spread(40.0, 37.0, 45.0, 7)
    assert of_all.intervals["steps_per_s"] == own.intervals["steps_per_s"]
    assert "samples_per_s" not in of_all.intervals
    assert own.over(()) == own


def test_quantiles_of_ranks_that_are_slow_together_add_up_exactly() -> None:
    chance = random.Random(3)
    speeds = [chance.lognormvariate(0.0, 0.3) for _ in range(31)]
    parts = [spread(factor * speed for speed in speeds) for factor in (2.0, 5.0, 11.0)]
    whole = spread(18.0 * speed for speed in speeds)

    assert whole is not None
    assert sum(part.low for part in parts if part) == pytest.approx(whole.low)
    assert sum(part.high for part in parts if part) == pytest.approx(whole.high)


def test_one_rank_that_is_unknown_makes_the_sum_unknown() -> None:
    of_all = Rates.of(counted(interval())).over([rank(0, 2000.0), rank(1, None)])

    assert of_all.tokens_per_s is None
    assert of_all.samples_per_s == 40.0
