"""How much longer a run takes for the same work than the runs of a baseline, and how far noise alone may go.

Owns the measure. Knows no limit and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from lightning_perfwatch.comparison.noise import between_runs, deviations
from lightning_perfwatch.comparison.speed import main_rate, rate_of, samples_of
from lightning_perfwatch.report import Report

LEVEL = 0.99
"""Of the noise; its lower end is passed by chance in one of 200 runs, so that a gate asked daily keeps its word."""


@dataclass(frozen=True)
class Slowdown:
    """How much longer the same work takes than in the ``num_runs`` runs of the baseline: 0.1 is 10 % longer.

    ``baseline`` and ``now`` are the ``rate`` (the runs' geometric mean), ``low_share`` to ``high_share`` is a 99 %
    interval for the slow-down that holds the noise between runs and within them.
    """

    rate: str
    baseline: float
    now: float
    share: float
    low_share: float
    high_share: float
    num_runs: int

    @property
    def is_slower(self) -> bool:
        """Beyond the noise."""
        return self.low_share > 0

    @property
    def is_faster(self) -> bool:
        """Beyond the noise."""
        return self.high_share < 0


def slowdown_of(run: Report, others: Sequence[Report]) -> Slowdown:
    """How much slower ``run`` is than ``others``. Raises ValueError where they share no rate."""
    rate = main_rate((run, *others))
    if rate is None:
        raise ValueError("The run can't be judged: it shares no rate (tokens, samples or steps/s) with the baseline.")
    amounts, durations_s = samples_of(run, rate)
    logs = [math.log(rate_of(other, rate) or math.nan) for other in others]
    now = rate_of(run, rate) or math.nan
    log_slowdown = sum(logs) / len(logs) - math.log(now)
    off, _ = deviations(amounts, durations_s, stream=1)
    # Runs differ by the noise within them too, so this counts only where the run is noisier than those before.
    noise = max(between_runs(logs, LEVEL), NormalDist().inv_cdf((1 + LEVEL) / 2) * float(np.std(off)))
    return Slowdown(
        rate=rate,
        baseline=math.exp(sum(logs) / len(logs)),
        now=now,
        share=math.expm1(log_slowdown),
        low_share=math.expm1(log_slowdown - noise),
        high_share=math.expm1(log_slowdown + noise),
        num_runs=len(logs),
    )
