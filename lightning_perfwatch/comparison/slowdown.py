"""How much longer a run takes for the same work than the runs of a baseline, and how far noise alone may go.

Owns both measures, of the whole run and of its faster intervals. Knows no limit and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median

import numpy as np

from lightning_perfwatch.comparison.noise import between_runs, deviations, quantile_sd
from lightning_perfwatch.comparison.pace import expected, log_pace
from lightning_perfwatch.comparison.speed import known_amounts, rate_of, samples_of, timed_intervals, together
from lightning_perfwatch.counts import Interval
from lightning_perfwatch.report import Report

LEVEL = 0.99
"""Of the noise; its lower end is passed by chance in one of 200 runs, so that a gate asked daily keeps its word."""

LEVEL_AT_PACE = 0.995
"""The same where the machine's pace is allowed for: what noise that leaves is small enough to be stricter."""

AT_BEST = 0.9
"""The quantile of a run's interval rates that is its speed at its best: one interval in ten is faster.

Whatever else a machine does slows some intervals down and none up, so the faster ones differ less between runs of the
same code than the means do. 16 runs of the same training differed by 2.2 % in it and by 3.0 % in the mean (standard
deviations; two CPU cores of a virtual machine, 27 intervals a run).
"""
FEWEST_FAST = 10
"""Intervals that a run needs for that quantile."""
FEWEST_RUNS = 5
"""In a baseline: with fewer, a machine that is slow or fast for minutes passes for the code."""
_ALIKE = 0.75
"""An interval is a whole one from this share of its usual steps on; the usual ones of two runs may differ as much."""
_VARYING = 1.1
"""Between intervals, work per step may vary by this factor: rates of other work don't tell which intervals are fast."""


@dataclass(frozen=True)
class Slowdown:
    """How much longer the same work takes than in the ``num_runs`` runs of the baseline: 0.1 is 10 % longer.

    ``baseline`` and ``now`` are the ``rate`` (the runs' geometric mean), ``low_share`` to ``high_share`` is an
    interval of the ``level`` for the slow-down that holds the noise between runs and within them. ``is_at_best`` tells
    whether the rates are those of the runs' faster intervals (:data:`AT_BEST`), which stalls now and then don't change.

    ``pace_share`` is how much longer a fixed piece of work took in the run, and so the machine; of that the slow-down
    is free: a run at this pace was expected to take ``expected_share`` longer. It is None where that is not known.
    """

    rate: str
    baseline: float
    now: float
    share: float
    low_share: float
    high_share: float
    num_runs: int
    is_at_best: bool = False
    pace_share: float | None = None
    expected_share: float = 0.0
    level: float = LEVEL

    @property
    def is_slower(self) -> bool:
        """Beyond the noise."""
        return self.low_share > 0

    @property
    def is_faster(self) -> bool:
        """Beyond the noise."""
        return self.high_share < 0


def slowdown_of(run: Report, others: Sequence[Report], rate: str) -> Slowdown:
    """How much slower ``run`` is than ``others``, as a whole; all of them know the ``rate``, ``run`` its intervals."""
    before = [rate_of(other, rate) or math.nan for other in others]
    return _slowdown(rate, before, rate_of(run, rate) or math.nan, _sd_within(run, rate))


def slowdown_at_pace(run: Report, others: Sequence[Report], rate: str) -> Slowdown:
    """The same, of what the machine's pace in ``run`` lets expect; all of them know their pace."""
    logs = [math.log(rate_of(other, rate) or math.nan) for other in others]
    paces, pace = [log_pace(other) or 0.0 for other in others], log_pace(run) or 0.0
    explained, noise = expected([-value for value in logs], paces, pace, LEVEL_AT_PACE)
    noise = max(noise, _wide(_sd_within(run, rate), LEVEL_AT_PACE))
    found = _with_noise(rate, logs, rate_of(run, rate) or math.nan, noise, explained)
    pace_share = math.expm1(pace - sum(paces) / len(paces))
    return replace(found, pace_share=pace_share, expected_share=math.expm1(explained), level=LEVEL_AT_PACE)


def slowdown_at_best(run: Report, others: Sequence[Report], rate: str) -> Slowdown:
    """How much slower ``run`` is than ``others`` in their faster intervals, all of about as many steps.

    Of ``others`` those are left out whose intervals hold more steps, are too few, or hold work that varies.

    Raises:
        ValueError: it can't be told; the message is a clause that says why.
    """
    own = timed_intervals(run)
    before = [(other, timed_intervals(other)) for other in others]
    usual = max(_usual_steps(own), median(_usual_steps(intervals) for _, intervals in before))
    own = _of_steps(own, usual)
    if len(own) < FEWEST_FAST:
        raise ValueError(f"the run has fewer than {FEWEST_FAST} intervals of some {usual:.0f} steps")
    now = _at_best(run, rate, own)
    if now is None:
        raise ValueError("the work per step varies from interval to interval")
    fine = [(other, intervals) for other, intervals in before if _usual_steps(intervals) * _ALIKE <= usual]
    known = [_at_best(other, rate, _of_steps(intervals, usual)) for other, intervals in fine]
    at_best = [value for value in known if value is not None]
    if len(at_best) < FEWEST_RUNS:
        raise ValueError(
            f"{len(at_best)} runs of the baseline have {FEWEST_FAST} intervals of some {usual:.0f} steps of the same "
            f"work, and {FEWEST_RUNS} are needed"
        )
    rates = _rates(rate, own)
    found = _slowdown(rate, at_best, now, quantile_sd(rates, AT_BEST, stream=1))
    # One interval that is as fast as those of the baseline shows that the code is, whatever the others met.
    fastest = now * max(rates) / float(np.quantile(rates, AT_BEST))
    return replace(found, low_share=min(found.low_share, found.baseline / fastest - 1), is_at_best=True)


def _usual_steps(intervals: Sequence[Interval]) -> float:
    return sum(one.num_steps for one in intervals) / len(intervals) if intervals else 0.0


def _of_steps(intervals: Sequence[Interval], num_steps: float) -> list[Interval]:
    """Neighbours taken together until they hold about ``num_steps``; a rest that is none is left out."""
    found: list[Interval] = []
    open_: list[Interval] = []
    for interval in intervals:
        open_.append(interval)
        if sum(one.num_steps for one in open_) >= _ALIKE * num_steps:
            found.append(together(open_))
            open_ = []
    return found


def _at_best(report: Report, rate: str, intervals: Sequence[Interval]) -> float | None:
    """The rate of the faster intervals, over all ranks, which are fast or slow together.

    None where they are too few or don't tell, or where the work varies.
    """
    amounts = known_amounts(rate, intervals)
    mean = rate_of(report, rate)
    if mean is None or len(amounts) < FEWEST_FAST:
        return None
    per_step = [amount / one.num_steps for amount, one in zip(amounts, intervals, strict=True)]
    if max(per_step) > _VARYING * min(per_step):
        return None
    every = timed_intervals(report)
    own_mean = sum(known_amounts(rate, every)) / sum(one.duration_s for one in every)
    return mean * float(np.quantile(_rates(rate, intervals), AT_BEST)) / own_mean


def _rates(rate: str, intervals: Sequence[Interval]) -> list[float]:
    amounts = known_amounts(rate, intervals)
    return [amount / one.duration_s for amount, one in zip(amounts, intervals, strict=True)]


def _sd_within(run: Report, rate: str) -> float:
    off, _ = deviations(*samples_of(run, rate), stream=1)
    return float(np.std(off))


def _slowdown(rate: str, before: Sequence[float], now: float, sd_within: float) -> Slowdown:
    logs = [math.log(value) for value in before]
    return _with_noise(rate, logs, now, max(between_runs(logs, LEVEL), _wide(sd_within, LEVEL)))


def _wide(sd_within: float, level: float) -> float:
    """Runs differ by the noise within them too, so this counts only where the run is noisier than those before."""
    return NormalDist().inv_cdf((1 + level) / 2) * sd_within


def _with_noise(rate: str, logs: Sequence[float], now: float, noise: float, explained: float = 0.0) -> Slowdown:
    mean = sum(logs) / len(logs)
    log_slowdown = mean - math.log(now) - explained
    return Slowdown(
        rate=rate,
        baseline=math.exp(mean),
        now=now,
        share=math.expm1(log_slowdown),
        low_share=math.expm1(log_slowdown - noise),
        high_share=math.expm1(log_slowdown + noise),
        num_runs=len(logs),
    )
