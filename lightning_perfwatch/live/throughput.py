"""Samples and tokens over time, interval by interval.

Pure arithmetic: durations and amounts are arguments. Knows no clock, no batch and no device.
"""

from __future__ import annotations

from collections import deque

from lightning_perfwatch.measurements import Counted, Interval

MOST_INTERVALS = 4096


class Throughput:
    """Adds up steps into intervals and intervals into totals.

    An interval ends where the device was synchronised, so that its duration holds all of its work. The newest
    4096 intervals are kept; the totals are over all steps.
    """

    def __init__(self) -> None:
        self._intervals: deque[Interval] = deque(maxlen=MOST_INTERVALS)
        self._num_batches = 0
        self._samples: int | None = 0
        self._tokens: int | None = 0
        self._begin_interval()

    def _begin_interval(self) -> None:
        self._interval_steps = 0
        self._interval_s = 0.0
        self._interval_samples: int | None = 0
        self._interval_tokens: int | None = 0
        self._clean = True

    def add(self, step_s: float, samples: int | None, tokens: int | None, *, clean: bool) -> None:
        """One training step of ``step_s`` seconds; unknown amounts make the sums they enter unknown."""
        self._num_batches += 1
        self._interval_steps += 1
        self._interval_s += step_s
        self._interval_samples = _sum(self._interval_samples, samples)
        self._interval_tokens = _sum(self._interval_tokens, tokens)
        self._samples = _sum(self._samples, samples)
        self._tokens = _sum(self._tokens, tokens)
        self._clean = self._clean and clean

    def add_wait(self, wait_s: float) -> None:
        """Seconds that the work of this interval's steps still took when the device was waited for at its edge."""
        self._interval_s += wait_s

    def close(self) -> Interval | None:
        """End the interval at a synchronised device; None if no step has gone by."""
        if self._interval_steps == 0:
            return None
        interval = Interval(
            last_step=self._num_batches - 1,
            num_steps=self._interval_steps,
            duration_s=self._interval_s,
            samples=self._interval_samples,
            tokens=self._interval_tokens,
            clean=self._clean,
        )
        self._intervals.append(interval)
        self._begin_interval()
        return interval

    def counted(self, num_optimizer_steps: int, num_synchronizations: int) -> Counted:
        """Everything counted so far, steps of an unfinished interval included in the totals."""
        return Counted(
            num_batches=self._num_batches,
            num_optimizer_steps=num_optimizer_steps,
            samples=self._samples if self._num_batches else None,
            tokens=self._tokens if self._num_batches else None,
            intervals=tuple(self._intervals),
            num_synchronizations=num_synchronizations,
        )


def _sum(total: int | None, amount: int | None) -> int | None:
    return None if total is None or amount is None else total + amount
