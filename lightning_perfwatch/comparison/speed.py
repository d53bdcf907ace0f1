"""How a rate changed from one report to another, and whether that is more than noise.

Owns which rate is to be looked at, and the answer. Knows nothing of findings or settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lightning_perfwatch.comparison.noise import deviations, of_two_runs, within_runs
from lightning_perfwatch.counts import Interval
from lightning_perfwatch.rates import FEWEST_INTERVALS, amounts_of, judged, total
from lightning_perfwatch.report import Report

RATES = ("tokens_per_s", "nonpadding_tokens_per_s", "samples_per_s", "steps_per_s")
"""In the order in which they are shown."""

MAIN_RATES = ("tokens_per_s", "samples_per_s", "steps_per_s")
"""Those to compare runs by, the best first."""

MOST_INTERVALS = 512
"""Whose means are compared; more would tell no more."""

_LEVEL = 0.95
_SHORTEST_S, _LONGEST_S = 1e-9, 1e9
_MOST = 1e30
"""Durations, amounts and rates beyond these were never measured; a damaged report may hold them."""


class Answer(str, Enum):
    """What can be said of a change.

    ``small`` is more than the noise within the runs, and no more than two runs of the same code usually differ by.
    ``not_told`` is for rates that were not measured, or in fewer than six intervals.
    """

    SAME_RUN = "same_run"
    NOT_TOLD = "not_told"
    NO_DIFFERENCE = "no_difference"
    SMALL = "small"
    FASTER = "faster"
    SLOWER = "slower"


@dataclass(frozen=True)
class Change:
    """A rate before and after, over all ranks; ``ratio`` is after / before, ``low`` to ``high`` a 95 % interval for
    it that holds the noise within the runs and what runs of the same code usually differ by.

    What is not known is None. ``num_intervals`` are those of both runs.
    """

    rate: str
    before: float | None
    after: float | None
    answer: Answer
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    num_intervals: tuple[int, int] = (0, 0)


def changes(before: Report, after: Report, same_run: bool) -> tuple[Change, ...]:
    """Every rate that at least one of the reports knows."""
    found = (_change(rate, before, after, same_run) for rate in RATES)
    return tuple(change for change in found if change.before is not None or change.after is not None)


def main_rate(reports: Sequence[Report]) -> str | None:
    """The rate to compare these runs by: tokens where all know them, else samples, else steps; None if there is none.

    Steps are no measure of speed between batches of different sizes; whoever asks has to know.
    """
    for rate in MAIN_RATES:
        if all(rate_of(report, rate) is not None for report in reports):
            return rate
    return None


def rate_of(report: Report, rate: str) -> float | None:
    """The rate over all ranks; None where it is not known, or none that can be."""
    value = getattr(report.throughput, rate)
    return value if value is not None and 1 / _MOST <= value <= _MOST else None


def coarse(intervals: Sequence[Interval], most: int) -> list[Interval]:
    """These intervals, neighbours taken together until there are at most ``most``; the sums stay as they are."""
    size = math.ceil(len(intervals) / most)
    if size <= 1:
        return list(intervals)
    return [together(intervals[start : start + size]) for start in range(0, len(intervals), size)]


def timed_intervals(report: Report) -> list[Interval]:
    """The judged intervals of this process whose duration is one.

    The ranks of a run take their steps together: the noise of the first is that of all.
    """
    intervals = () if report.counted is None else judged(report.counted.intervals)
    return [one for one in intervals if _SHORTEST_S <= one.duration_s <= _LONGEST_S and one.num_steps > 0]


def samples_of(report: Report, rate: str) -> tuple[list[float], list[float]]:
    """Amounts and seconds of :func:`timed_intervals`; empty where an amount is not known."""
    intervals = coarse(timed_intervals(report), MOST_INTERVALS)
    amounts = known_amounts(rate, intervals)
    return (amounts, [interval.duration_s for interval in intervals]) if amounts else ([], [])


def known_amounts(rate: str, intervals: Sequence[Interval]) -> list[float]:
    """What ``rate`` counts, by interval; empty where one amount is not known or none that was counted."""
    amounts = [amount for amount in amounts_of(rate, intervals) if amount is not None and 0 < amount <= _MOST]
    return [] if len(amounts) < len(intervals) else [float(amount) for amount in amounts]


def _change(rate: str, before: Report, after: Report, same_run: bool) -> Change:
    speeds = rate_of(before, rate), rate_of(after, rate)
    known = Change(rate, *speeds, Answer.SAME_RUN if same_run else Answer.NOT_TOLD)
    if speeds[0] is None or speeds[1] is None:
        return replace(known, answer=Answer.NOT_TOLD)
    samples = samples_of(before, rate), samples_of(after, rate)
    num_intervals = len(samples[0][0]), len(samples[1][0])
    ratio = speeds[1] / speeds[0]
    known = replace(known, ratio=ratio, num_intervals=num_intervals)
    if same_run:
        return replace(known, low=1.0, high=1.0)
    if min(num_intervals) < FEWEST_INTERVALS:
        return known
    ends = within_runs(deviations(*samples[0], stream=0), deviations(*samples[1], stream=1), _LEVEL)
    low, high = (ratio * end for end in of_two_runs(ends, _LEVEL))
    if ratio * ends[0] <= 1.0 <= ratio * ends[1]:
        answer = Answer.NO_DIFFERENCE
    elif low <= 1.0 <= high:
        answer = Answer.SMALL
    else:
        answer = Answer.FASTER if ratio > 1.0 else Answer.SLOWER
    return replace(known, low=low, high=high, answer=answer)


def together(intervals: Sequence[Interval]) -> Interval:
    """Neighbours as one interval."""
    return Interval(
        last_step=intervals[-1].last_step,
        num_steps=sum(interval.num_steps for interval in intervals),
        duration_s=sum(interval.duration_s for interval in intervals),
        samples=total([interval.samples for interval in intervals]),
        tokens=total([interval.tokens for interval in intervals]),
        clean=all(interval.clean for interval in intervals),
        nonpadding_tokens=total([interval.nonpadding_tokens for interval in intervals]),
        end_s=intervals[-1].end_s,
    )
