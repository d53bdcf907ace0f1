"""What of a run's time per step is the machine's, by a fixed piece of work that every run does now and then.

Owns which runs can be judged so, and what is to be expected of one. Knows no limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lightning_perfwatch.comparison.noise import NUM_ASSUMED, USUAL_RUN_SD, student_t
from lightning_perfwatch.comparison.setup import Difference
from lightning_perfwatch.report import Report
from lightning_perfwatch.resources import Pace

FEWEST_PACED = 8
"""Runs of a baseline whose pace is known; fewer don't tell how much a step depends on it."""
FEWEST_READINGS = 10
"""Of the pace, in a run."""

_USUAL_SLOPE, _SLOPE_SD = 0.5, 0.5
"""Assumed before anything is known: 0 is a step that does not depend on the pace, 1 one that is all the machine's.

Small models on a CPU had 1.0 to 1.4.
"""
_MORE_CORES, _MORE_CORES_SHARE = 0.2, 0.05
_NOTABLE = math.log(1.05)


def log_pace(report: Report) -> float | None:
    """The logarithm of the seconds that the fixed work took; None where it was not read often enough."""
    pace = _pace(report)
    if pace is None or pace.num_readings < FEWEST_READINGS or not 1e-5 < pace.work_s < 1.0:
        return None
    return math.log(pace.work_s)


def paced(run: Report, others: Sequence[Report]) -> list[Report]:
    """Those of ``others`` whose pace is known, where ``run`` can be judged by them.

    Raises:
        ValueError: it can't; the message is a clause.
    """
    if run.run is None or run.run.device_type != "cpu":
        raise ValueError("only a run on CPUs has its machine's pace")
    if log_pace(run) is None:
        raise ValueError(f"the run has no {FEWEST_READINGS} usable readings of the machine's pace")
    known = [other for other in others if log_pace(other) is not None and _work_of(other) == _work_of(run)]
    if len(known) < FEWEST_PACED:
        raise ValueError(
            f"{len(known)} runs of the baseline know the machine's pace by the same work, and {FEWEST_PACED} are needed"
        )
    cores, cores_before = _own_cores(run), [own for own in map(_own_cores, known) if own is not None]
    if cores is None or not cores_before:
        raise ValueError("it is not known how many CPUs the run's own processes take")
    if cores > max(cores_before) + max(_MORE_CORES, _MORE_CORES_SHARE * max(cores_before)):
        raise ValueError(
            f"the run's own processes take {cores:.1f} CPUs, and took {max(cores_before):.1f} at most in the "
            "baseline, so they may be what slows the machine down"
        )
    return known


def machines_pace(before: Report, after: Report) -> Difference | None:
    """What the fixed work took in two runs on CPUs, if that differs by so much that it shows in their speed."""
    first, second = log_pace(before), log_pace(after)
    on_cpus = before.run is not None and before.run.device_type == "cpu"
    if first is None or second is None or not on_cpus or _work_of(before) != _work_of(after):
        return None
    if abs(second - first) < _NOTABLE:
        return None
    how = "slower" if second > first else "faster"
    said = [f"{1e6 * math.exp(pace):.0f} µs" for pace in (first, second)]
    return Difference("a fixed piece of work", said[0], said[1], f"the machine itself was {how} after than before")


def expected(log_s: Sequence[float], log_paces: Sequence[float], now: float, level: float) -> tuple[float, float]:
    """By how much a run at the pace ``now`` is expected to differ from the mean of ``log_s``, and its noise at most.

    All are logarithms of seconds. A linear regression with a normal prior for its slope and, for the variance about
    the line, that of :func:`~lightning_perfwatch.comparison.noise.between_runs` (Gelman et al., Bayesian Data Analysis,
    3rd edition, sections 3.3 and 14.8). Where the pace hardly differed before, the prior says how much is not known.
    """
    n = len(log_s)
    mean_s, mean_pace = sum(log_s) / n, sum(log_paces) / n
    off_s, off_pace = [value - mean_s for value in log_s], [value - mean_pace for value in log_paces]
    squares = sum(pace * pace for pace in off_pace)
    products = sum(pace * own for pace, own in zip(off_pace, off_s, strict=True))
    degrees = NUM_ASSUMED + n - 1
    slope, slope_variance, variance = _USUAL_SLOPE, _SLOPE_SD**2, USUAL_RUN_SD**2
    for _ in range(_NUM_ROUNDS):  # the slope needs the variance, and the variance the slope
        slope_variance = 1 / (squares / variance + 1 / _SLOPE_SD**2)
        slope = slope_variance * (products / variance + _USUAL_SLOPE / _SLOPE_SD**2)
        rest = sum((own - slope * pace) ** 2 for pace, own in zip(off_pace, off_s, strict=True))
        variance = (NUM_ASSUMED * USUAL_RUN_SD**2 + rest) / degrees
    off = now - mean_pace
    noise = student_t((1 + level) / 2, degrees) * math.sqrt(variance * (1 + 1 / n) + slope_variance * off * off)
    return slope * off, noise


_NUM_ROUNDS = 20


def _pace(report: Report) -> Pace | None:
    return None if report.resources is None else report.resources.pace


def _work_of(report: Report) -> tuple[object, ...]:
    """What has to be the same for times of the fixed work to be compared."""
    pace = _pace(report)
    return None if pace is None else pace.work, None if report.run is None else report.run.python_version


def _own_cores(report: Report) -> float | None:
    """How many CPUs this process and its workers keep busy; None where that was not read."""
    use = None if report.resources is None else report.resources.processors
    if use is None or use.wall_s <= 0:
        return None
    return (use.process_s + use.workers_s) / use.wall_s
