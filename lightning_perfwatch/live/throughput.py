"""Samples and tokens over time, interval by interval.

Pure arithmetic: durations and amounts are arguments. Knows no clock and no batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.live.tally import Count, Tally

MOST_INTERVALS = 4096


class Throughput:
    """Adds up steps into intervals and intervals into totals.

    An interval ends where the device was synchronised, so that its duration holds all of its work, and counts that
    lie on the device are read there. The newest 4096 intervals are kept; the totals are over all steps in closed ones.
    """

    def __init__(self) -> None:
        self._intervals: deque[Interval] = deque(maxlen=MOST_INTERVALS)
        self._num_batches = 0
        self._samples: int | None = 0
        self._tokens: int | None = 0
        self._nonpadding: int | None = 0
        self._counts = (Tally(), Tally(), Tally())
        self.num_steps = 0
        self.is_clean = True
        self._duration_s = 0.0

    def add(
        self,
        steps_s: float,
        samples: int | None,
        tokens: Count,
        nonpadding: Count = None,
        *,
        num_steps: int = 1,
        clean: bool = True,
        nonpadding_of: Sequence[Count] | None = None,
    ) -> None:
        """Steps of ``steps_s`` seconds in all, each with these amounts; unknown ones make their sums unknown.

        ``nonpadding_of`` tells of each step for itself what ``nonpadding`` does not tell of all of them.
        """
        self._num_batches += num_steps
        self.num_steps += num_steps
        self._duration_s += steps_s
        of_samples, of_tokens, of_nonpadding = self._counts
        of_samples.add(samples, num_steps)
        of_tokens.add(tokens, num_steps)
        if nonpadding_of is None:
            of_nonpadding.add(nonpadding, num_steps)
        else:
            of_nonpadding.add_all(nonpadding_of)
        self.is_clean = self.is_clean and clean

    def add_wait(self, wait_s: float) -> None:
        """Seconds that the work of this interval's steps still took when the device was waited for at its edge."""
        self._duration_s += wait_s

    def close(self, end_s: float | None = None) -> Interval | None:
        """End the interval at a synchronised device, ``end_s`` seconds into the run; None if no step has gone by.

        ``num_steps`` and ``is_clean`` are those of the interval that is open.
        """
        if self.num_steps == 0:
            return None
        samples, tokens, nonpadding = self._take()
        interval = Interval(
            last_step=self._num_batches - 1,
            num_steps=self.num_steps,
            duration_s=self._duration_s,
            samples=samples,
            tokens=tokens,
            clean=self.is_clean,
            nonpadding_tokens=nonpadding,
            end_s=end_s,
        )
        self._intervals.append(interval)
        self.num_steps, self.is_clean, self._duration_s = 0, True, 0.0
        return interval

    def _take(self) -> tuple[int | None, int | None, int | None]:
        """The amounts of the open interval, which are added to the totals."""
        samples, tokens, nonpadding = (tally.take() for tally in self._counts)
        self._samples = _sum(self._samples, samples)
        self._tokens = _sum(self._tokens, tokens)
        self._nonpadding = _sum(self._nonpadding, nonpadding)
        return samples, tokens, nonpadding

    def counted(self, num_optimizer_steps: int, num_synchronizations: int, nonpadding_by: str | None = None) -> Counted:
        """Everything counted in the intervals that are closed."""
        num_batches = self._num_batches - self.num_steps
        known = num_batches > 0
        return Counted(
            num_batches=num_batches,
            num_optimizer_steps=num_optimizer_steps,
            samples=self._samples if known else None,
            tokens=self._tokens if known else None,
            intervals=tuple(self._intervals),
            num_synchronizations=num_synchronizations,
            nonpadding_tokens=self._nonpadding if known else None,
            nonpadding_by=nonpadding_by,
        )


def _sum(total: int | None, amount: int | None) -> int | None:
    return None if total is None or amount is None else total + amount
