"""Whether the step takes longer than it used to.

Pure arithmetic on closed intervals. Knows no clock and opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lightning_perfwatch.counts import Interval

NUM_SPANS = 3
"""So many spans tell a steady state, and so many slow ones in a row tell a drift."""

MOST_SPANS = 16
"""A steady state is judged by its first spans: one that moved along would follow a slow growth."""


@dataclass(frozen=True)
class Span:
    """Clean intervals that follow each other, long enough to be judged; unknown amounts are None."""

    num_steps: int = 0
    duration_s: float = 0.0
    amount: int | None = 0

    def with_interval(self, interval: Interval) -> Span:
        """This span and ``interval``."""
        amount = interval.samples if interval.tokens is None else interval.tokens
        return Span(
            self.num_steps + interval.num_steps,
            self.duration_s + interval.duration_s,
            None if amount is None or self.amount is None else self.amount + amount,
        )

    @property
    def step_s(self) -> float:
        """Mean seconds of a step."""
        return self.duration_s / self.num_steps

    @property
    def amount_s(self) -> float | None:
        """Mean seconds of a token, or of a sample where tokens are unknown; None where both are."""
        return self.duration_s / self.amount if self.amount else None


class DriftWatch:
    """Compares the step with its steady state.

    Clean intervals are joined into spans of a third of ``least_s``, so that neither fast steps nor short intervals
    make it jumpy. The steady state is the median of up to 16 spans. Three spans in a row that take ``factor`` times
    as long are a drift, both by the step and, where that is known, by the token: larger batches are none. After
    each drift the steady state is learnt anew, since what the step takes now is known.

    Args:
        factor: how many times its steady state a step takes that drifts; None to find none.
        least_s: seconds of training that it has to last.
        most: how many drifts are found at most.
    """

    def __init__(self, factor: float | None, least_s: float, most: int) -> None:
        self._factor = factor
        self._span_s = least_s / NUM_SPANS
        self._num_left = 0 if factor is None else most
        self._open = Span()
        self._steady: list[Span] = []
        self._slow: list[Span] = []

    def add(self, interval: Interval) -> str | None:
        """One more interval has closed; what has drifted, in words, if the drift shows with it."""
        if self._factor is None or not self._num_left or not interval.clean:
            return None
        self._open = self._open.with_interval(interval)
        if self._open.duration_s < self._span_s:
            return None
        span, self._open = self._open, Span()
        if len(self._steady) < NUM_SPANS or _times(span, self._steady) < self._factor:
            self._slow.clear()
            if len(self._steady) < MOST_SPANS:
                self._steady.append(span)
            return None
        self._slow.append(span)
        return self._found() if len(self._slow) == NUM_SPANS else None

    def _found(self) -> str:
        now_s = median(span.step_s for span in self._slow)
        steady_s = median(span.step_s for span in self._steady)
        self._num_left -= 1
        self._steady.clear()
        self._slow.clear()
        return (
            f"drift: the step takes {now_s / steady_s:.1f} times its steady state "
            f"({_ms(now_s)} against {_ms(steady_s)})"
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


def _times(span: Span, steady: Sequence[Span]) -> float:
    """How many times the steady state ``span`` takes, by the step or by the token, whichever is less."""
    by_step = span.step_s / median(other.step_s for other in steady)
    known = [other.amount_s for other in steady if other.amount_s is not None]
    if span.amount_s is None or len(known) < len(steady):
        return by_step
    return min(by_step, span.amount_s / median(known))
