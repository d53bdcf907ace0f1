"""How much longer a run takes for the same work than the runs of a baseline, and how far noise alone may go.

Owns both measures, of the whole run and of its faster intervals. Knows no limit and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from lightning_perfwatch.comparison.noise import between_runs, deviations, quantile_sd
from lightning_perfwatch.comparison.speed import MOST_KEPT_INTERVALS, main_rate, rate_of, samples_of
from lightning_perfwatch.rates import FEWEST_INTERVALS
from lightning_perfwatch.report import Report

LEVEL = 0.99
"""Of the noise; its lower end is passed by chance in one of 200 runs, so that a gate asked daily keeps its word."""


AT_BEST = 0.8
"""The quantile of a run's interval rates that is its speed at its best: one interval in five is faster.

Whatever else a machine does slows some intervals down and none up, so the faster ones differ less between runs of the
same code than the means do. 16 runs of the same training differed by 2.2 % in it and by 3.0 % in the mean (standard
deviations; two CPU cores of a virtual machine, 27 intervals of five steps each).
"""
_MOST_UNLIKE = 1.5
"""Fast intervals are compared where intervals are about as long: long ones have fewer slow and fewer fast ones."""


@dataclass(frozen=True)
class Slowdown:
    """How much longer the same work takes than in the ``num_runs`` runs of the baseline: 0.1 is 10 % longer.

    ``baseline`` and ``now`` are the ``rate`` (the runs' geometric mean), ``low_share`` to ``high_share`` is a 99 %
    interval for the slow-down that holds the noise between runs and within them. ``is_at_best`` tells whether the rates
    are those of the runs' faster intervals (:data:`AT_BEST`), which stalls now and then don't change.
    """

    rate: str
    baseline: float
    now: float
    share: float
    low_share: float
    high_share: float
    num_runs: int
    is_at_best: bool = False

    @property
    def is_slower(self) -> bool:
        """Beyond the noise."""
        return self.low_share > 0

    @property
    def is_faster(self) -> bool:
        """Beyond the noise."""
        return self.high_share < 0


def slowdown_of(run: Report, others: Sequence[Report]) -> Slowdown:
    """How much slower ``run`` is than ``others``, as a whole. Raises ValueError where they share no rate."""
    rate = main_rate((run, *others))
    if rate is None:
        raise ValueError("The run can't be judged: it shares no rate (tokens, samples or steps/s) with the baseline.")
    off, _ = deviations(*samples_of(run, rate), stream=1)
    before = [rate_of(other, rate) or math.nan for other in others]
    return _slowdown(rate, before, rate_of(run, rate) or math.nan, float(np.std(off)))


def slowdown_at_best(run: Report, others: Sequence[Report]) -> Slowdown | None:
    """How much slower ``run`` is than ``others`` in their faster intervals; None where those can't be compared."""
    rate = main_rate((run, *others))
    if rate is None:
        return None
    known = [samples_of(report, rate, MOST_KEPT_INTERVALS) for report in (run, *others)]
    if any(len(amounts) < FEWEST_INTERVALS for amounts, _ in known):
        return None
    lengths_s = [sum(durations_s) / len(durations_s) for _, durations_s in known]
    if not all(1 / _MOST_UNLIKE < length_s / lengths_s[0] < _MOST_UNLIKE for length_s in lengths_s):
        return None
    rates = [np.asarray(amounts) / np.asarray(durations_s) for amounts, durations_s in known]
    # Of all ranks: they take their steps together, and are fast or slow together.
    at_best = [
        (rate_of(report, rate) or math.nan) * float(np.quantile(one, AT_BEST)) * sum(durations_s) / sum(amounts)
        for report, one, (amounts, durations_s) in zip((run, *others), rates, known, strict=True)
    ]
    off = quantile_sd(rates[0].tolist(), AT_BEST, stream=1)
    return replace(_slowdown(rate, at_best[1:], at_best[0], off), is_at_best=True)


def _slowdown(rate: str, before: Sequence[float], now: float, sd_within: float) -> Slowdown:
    logs = [math.log(value) for value in before]
    log_slowdown = sum(logs) / len(logs) - math.log(now)
    # Runs differ by the noise within them too, so this counts only where the run is noisier than those before.
    noise = max(between_runs(logs, LEVEL), NormalDist().inv_cdf((1 + LEVEL) / 2) * sd_within)
    return Slowdown(
        rate=rate,
        baseline=math.exp(sum(logs) / len(logs)),
        now=now,
        share=math.expm1(log_slowdown),
        low_share=math.expm1(log_slowdown - noise),
        high_share=math.expm1(log_slowdown + noise),
        num_runs=len(logs),
    )
