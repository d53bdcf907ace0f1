"""The noise of a measured rate: within a run, from its intervals, and between runs of the same code.

Owns the statistics. Knows amounts and seconds, no report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NUM_DRAWS = 2000
USUAL_RUN_SD = 0.02
"""Assumed before anything is known: runs of the same code differ by 2 % (standard deviation)."""
NUM_ASSUMED = 4
"""The assumption weighs as much as the spread of this many further runs."""

_SEED = 7
_MOST_CORRELATED = 0.9


def block_length(values: Floats) -> int:
    """How many neighbouring values are drawn together, so that what follows from each other stays together.

    The larger of two rules for the bandwidth of a triangular kernel, to which the variance of block means amounts:
    ``1.3 sqrt(n)`` (Lazarus, Lewis, Stock and Watson 2018, Journal of Business and Economic Statistics 36, 541-559),
    and for values that follow closely from each other, with the correlation ``r`` of neighbours,
    ``1.1447 (n (2 r / (1 - r**2))**2) ** (1/3)`` (Andrews 1991, Econometrica 59, 817-858, section 6). ``r`` is
    corrected for its bias in few values, ``(1 + 3 r) / n`` (Kendall 1954). At most a third of the values.
    """
    n = int(values.size)
    off = values - values.mean()
    square = float(off @ off)
    if n < 3 or square <= 0:
        return 1
    r = float(off[1:] @ off[:-1]) / square
    r = min(r + (1 + 3 * r) / n, _MOST_CORRELATED)
    r = max(r, 0.0)
    length: float = max(1.1447 * (n * (2 * r / (1 - r * r)) ** 2) ** (1 / 3), 1.3 * math.sqrt(n))
    return max(1, min(math.ceil(length), n // 3))


def deviations(amounts: Sequence[float], durations_s: Sequence[float], stream: int) -> tuple[Floats, float]:
    """How far the logarithm of ``sum(amounts) / sum(durations_s)`` may be off, and its degrees of freedom.

    A moving-block bootstrap (Kuensch 1989, Annals of Statistics 17, 1217-1241) on a circle (Politis and Romano 1992),
    so that every interval counts as much as the others: blocks of neighbouring intervals are drawn with replacement,
    2000 times, always the same for the same values and ``stream``. Draws of n values in blocks of l vary by the factor
    (n - l) / n too little, which is made up for. The degrees of freedom are the number of blocks less one.
    """
    counts, seconds = np.asarray(amounts, np.float64), np.asarray(durations_s, np.float64)
    n, length = len(counts), block_length(counts / seconds)
    starts, sizes = _blocks(n, length, stream)
    drawn = [
        sum(_sums(values, size)[starts[:, number]] for number, size in enumerate(sizes)) for values in (counts, seconds)
    ]
    off = np.log(drawn[0] / drawn[1]) - math.log(counts.sum() / seconds.sum())
    return off * math.sqrt(n / (n - length)), n / length - 1


def quantile_sd(values: Sequence[float], probability: float, stream: int) -> float:
    """The standard deviation of the logarithm of a quantile of ``values``, from the draws of :func:`deviations`."""
    known = np.asarray(values, np.float64)
    n, length = len(known), block_length(known)
    starts, sizes = _blocks(n, length, stream)
    places = [starts[:, number, None] + np.arange(size) for number, size in enumerate(sizes)]
    drawn = known[np.concatenate(places, axis=1) % n]
    return float(np.log(np.quantile(drawn, probability, axis=1)).std()) * math.sqrt(n / (n - length))


def _blocks(n: int, length: int, stream: int) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Where the blocks of each draw begin, and how long they are: n values in all."""
    num_blocks = math.ceil(n / length)
    sizes = [length] * (num_blocks - 1) + [n - length * (num_blocks - 1)]
    return np.random.default_rng((_SEED, stream)).integers(0, n, (NUM_DRAWS, num_blocks)), sizes


def _sums(values: Floats, size: int) -> Floats:
    """The sum of ``size`` values from each place on, around the circle."""
    total = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values[: size - 1])))))
    return np.asarray(total[size:] - total[:-size])


def within_runs(before: tuple[Floats, float], after: tuple[Floats, float], level: float) -> tuple[float, float]:
    """The ends of an interval for the logarithm of after / before around their measured ratio, as factors of it.

    The quantiles of both runs' deviations, made wider as Student's t is wider than the normal distribution, with
    degrees of freedom by Welch (1947) and Satterthwaite (1946): few blocks tell little of how much they vary. Simulated
    95 % intervals held the truth in 95 of 100 cases where neighbours had a correlation of 0.5 or less and there were
    12 intervals or more, in 86 for 8 intervals, in 90 with a correlation of 0.8.
    """
    off = after[0] - before[0]
    variances = [float(side[0].var()) for side in (before, after)]
    if sum(variances) == 0:
        return 1.0, 1.0
    parts = sum(v * v / side[1] for v, side in zip(variances, (before, after), strict=True))
    degrees = sum(variances) ** 2 / parts
    upper = (1 + level) / 2
    wider = student_t(upper, degrees) / NormalDist().inv_cdf(upper)
    low, high = np.quantile(off, [1 - upper, upper]) * wider
    return math.exp(min(low, 0.0)), math.exp(max(high, 0.0))


def of_two_runs(ends: tuple[float, float], level: float) -> tuple[float, float]:
    """The ends of an interval from :func:`within_runs`, wider by what two runs of the same code usually differ by.

    Both noises are independent, so their squares add up; of the two runs each has :data:`USUAL_RUN_SD`.
    """
    between = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(2) * USUAL_RUN_SD
    low, high = (math.hypot(math.log(end), between) for end in ends)
    return math.exp(-low), math.exp(high)


def between_runs(log_rates: Sequence[float], level: float) -> float:
    """How far the logarithm of the rate of a further run may lie from the mean of these, at most.

    The prediction interval of a normal distribution whose variance is not known (Gelman et al., Bayesian Data
    Analysis, 3rd edition, section 3.3): ``t s sqrt(1 + 1/n)`` with ``s**2 = (m s0**2 + S) / (m + n - 1)`` and Student's
    t of ``m + n - 1`` degrees of freedom. S is the sum of squares about the mean of the n runs, ``s0`` is
    :data:`USUAL_RUN_SD` and m :data:`NUM_ASSUMED`; so one run alone gives a usable, wide answer.
    """
    n = len(log_rates)
    mean = sum(log_rates) / n
    squares = sum((value - mean) ** 2 for value in log_rates)
    degrees = NUM_ASSUMED + n - 1
    sd = math.sqrt((NUM_ASSUMED * USUAL_RUN_SD**2 + squares) / degrees)
    return student_t((1 + level) / 2, degrees) * sd * math.sqrt(1 + 1 / n)


def student_t(probability: float, degrees: float) -> float:
    """The quantile of Student's t distribution, by the expansion 26.7.5 of Abramowitz and Stegun.

    Within 1 % of the exact value up to the 99.5 % quantile from 3 degrees of freedom on; fewer than 2 count as 2.
    """
    degrees = max(degrees, 2.0)
    x = NormalDist().inv_cdf(probability)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + sum(term / degrees**power for power, term in enumerate(terms, start=1))
