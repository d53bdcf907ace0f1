"""Rates and their spread, from what was counted in intervals.

Owns which intervals are judged, and the arithmetic on them. Knows no clock, no batch and no report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lightning_perfwatch.counts import Counted, Interval, Spread
from lightning_perfwatch.measurements import RankSummary

Number = TypeVar("Number", int, float)

FEWEST_INTERVALS = 6
"""With fewer values even the smallest and the largest don't enclose the median with 95 % confidence: 1 - 2 / 2**n."""


RATES = ("tokens_per_s", "samples_per_s", "steps_per_s", "nonpadding_tokens_per_s")
"""The names of all rates; what they are rates of stands in :class:`~lightning_perfwatch.counts.Interval`."""


@dataclass(frozen=True)
class Rates:
    """Rates per second of training, of one process or summed over several; None where they can't be told.

    ``intervals`` holds their spread by name; a rate that has too few intervals for one is left out.
    """

    tokens_per_s: float | None
    samples_per_s: float | None
    steps_per_s: float | None
    nonpadding_tokens_per_s: float | None = None
    intervals: dict[str, Spread] = field(default_factory=dict)

    @classmethod
    def of(cls, counted: Counted) -> Rates:
        """Amounts over time spent on training, from the clean intervals where there are any."""
        intervals = judged(counted.intervals)
        durations_s = [interval.duration_s for interval in intervals]
        amounts = {name: amounts_of(name, intervals) for name in RATES}
        spreads = {name: _spread_of_rates(values, durations_s) for name, values in amounts.items()}
        return cls(
            **{name: _rate(values, durations_s) for name, values in amounts.items()},
            intervals={name: spread for name, spread in spreads.items() if spread is not None},
        )

    def over(self, ranks: Sequence[RankSummary]) -> Rates:
        """Tokens and samples summed over all ``ranks``, steps as they are; of one process alone these very rates.

        The ranks of a run take their steps together and are fast or slow together. Quantiles of quantities that rise
        and fall together add up, and so do the ends of their intervals; if the ranks are not together, the sum's
        interval is wider than it need be, never narrower.
        """
        if not ranks:
            return self
        steps = self.intervals.get("steps_per_s")
        sums = {name: _sum_of_spreads([(rank.intervals or {}).get(name) for rank in ranks]) for name in _SUMMED}
        return Rates(
            steps_per_s=self.steps_per_s,
            **{name: total([getattr(rank, name) for rank in ranks]) for name in _SUMMED},
            intervals={name: spread for name, spread in {**sums, "steps_per_s": steps}.items() if spread is not None},
        )


_SUMMED = ("tokens_per_s", "samples_per_s", "nonpadding_tokens_per_s")


def spread(values: Iterable[float]) -> Spread | None:
    """Median and 95 % confidence interval for it, by order statistics; None with fewer than six values.

    The interval reaches from the k-th smallest to the k-th largest value, with the largest k for which it still
    encloses the median of what the values are drawn from with a probability of 95 %: each value lies below that
    median with probability 1/2, so the number below it is binomial, whatever the distribution (Thompson 1936, Annals
    of Mathematical Statistics 7, 122-128; David and Nagaraja, Order Statistics, 3rd edition, section 7.1).
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < FEWEST_INTERVALS:
        return None
    rank = _rank(n)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return Spread(median=middle, low=ordered[rank - 1], high=ordered[n - rank], num_intervals=n)


def _rank(n: int) -> int:
    """The largest k with P(fewer than k of n values below the median) at most 2.5 %."""
    term, below, rank = 1, 0, 0
    allowed = 2**n // 40  # 2.5 % of all ways in which the values can lie, in whole numbers
    while below + term <= allowed:
        below += term
        term = term * (n - rank) // (rank + 1)
        rank += 1
    return rank


def _spread_of_rates(amounts: Sequence[int | None], durations_s: Sequence[float]) -> Spread | None:
    known = [amount / s for amount, s in zip(amounts, durations_s, strict=True) if amount is not None and s > 0]
    return spread(known) if len(known) == len(amounts) else None


def judged(intervals: Sequence[Interval]) -> list[Interval]:
    """Clean intervals; if a short run has none, all but the first, and at last the first too."""
    return [i for i in intervals if i.clean] or list(intervals[1:]) or list(intervals)


def amounts_of(rate: str, intervals: Sequence[Interval]) -> list[int | None]:
    """What the rate of this name counts, by interval; None where it can't be told."""
    name = "num_steps" if rate == "steps_per_s" else rate.removesuffix("_per_s")
    return [getattr(interval, name) for interval in intervals]


def _rate(amounts: Sequence[int | None], durations_s: Sequence[float]) -> float | None:
    amount, duration_s = total(amounts), sum(durations_s)
    return amount / duration_s if amount is not None and duration_s > 0 else None


def total(amounts: Sequence[Number | None]) -> Number | int | None:
    """The sum; None where one of them can't be told."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _sum_of_spreads(spreads: Sequence[Spread | None]) -> Spread | None:
    known = [spread for spread in spreads if spread is not None]
    if len(known) < len(spreads):
        return None
    return Spread(
        median=sum(spread.median for spread in known),
        low=sum(spread.low for spread in known),
        high=sum(spread.high for spread in known),
        num_intervals=min(spread.num_intervals for spread in known),
    )
