"""Predicted against realised gains: what a finding promises, and what the run gains once the fault is gone.

Owns the arithmetic. Knows neither cases nor how they are run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.measuring import Figure, median

_NOISE = 0.1
"""Two runs of the same case on a quiet machine of two cores differ by up to this."""


@dataclass(frozen=True)
class Gain:
    """Speed-ups of one case as factors; ``predicted`` is None where the rule said nothing or no share.

    ``predicted_is`` is an "upper bound", an "estimate" or a "lower bound", as the rule says.
    """

    name: str
    predicted: float | None
    realised: float
    predicted_is: str = "upper bound"

    @property
    def error(self) -> float | None:
        """How far off the prediction was, of what was realised."""
        return None if self.predicted is None else abs(self.predicted - self.realised) / self.realised

    @property
    def is_beyond_bound(self) -> bool:
        """Whether more was gained than was said to be possible, or less than was said to be certain."""
        if self.predicted is None or self.predicted_is == "estimate":
            return False
        low, high = (
            (self.predicted, self.realised) if self.predicted_is == "upper bound" else (self.realised, self.predicted)
        )
        return low < high * (1 - _NOISE)


def gain(name: str, rule: str, planted: Sequence[Any], fixed: Sequence[Any], outside: bool) -> Gain:
    """The gain of a case from the reports of its planted and its fixed runs, the median of both over all rounds.

    What is realised is compared within a round, whose runs follow each other: a machine's load changes more slowly.
    """
    predictions = [prediction for report in planted if (prediction := predicted(report, rule)) is not None]
    realised = median(
        rate(after, outside) / rate(before, outside) for before, after in zip(planted, fixed, strict=True)
    )
    kinds = {finding["share_is"] for report in planted for finding in _with_share(report, rule)}
    kind = next(iter(kinds)) if len(kinds) == 1 else "estimate"
    return Gain(name, median(predictions) if predictions else None, realised, kind)


def predicted(report: Mapping[str, Any], rule: str) -> float | None:
    """The speed-up that the findings of ``rule`` promise together; None if there is none with a share."""
    shares = [finding["share"] for finding in _with_share(report, rule)]
    return 1 / (1 - min(0.99, sum(shares))) if shares else None


def _with_share(report: Mapping[str, Any], rule: str) -> list[Mapping[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule and finding["share"] is not None]


def rate(report: Mapping[str, Any], outside: bool) -> float:
    """Samples per second of training, or, for what is lost ``outside`` of steps, batches per second of the fit."""
    if not outside:
        return float(report["throughput"]["samples_per_s"])
    spent_s = sum(seconds for part, seconds in report["wall_s"].items() if part != "capture")
    return float(report["counted"]["num_batches"] / spent_s)


def figures(gains: Sequence[Gain], num_wanted: int) -> list[Figure]:
    """The median error, how often a bound did not hold, and whether enough gains could be compared."""
    errors = [error for one in gains if (error := one.error) is not None]
    num_beyond = sum(one.is_beyond_bound for one in gains)
    scores = [Figure("gains predicted and realised", len(errors), num_wanted, "")]
    if errors:
        scores += [
            Figure("median error of a predicted gain", median(errors), 0.15, "", at_least=False),
            Figure(f"gains beyond their bound by more than {100 * _NOISE:.0f} %", num_beyond, 0, "", at_least=False),
        ]
    return scores
