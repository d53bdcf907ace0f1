"""Where windows, validations and checkpoints lie in a run, on one time base with its intervals.

Owns this base, the begin of the first step. Reads no clock: times are arguments. Knows no Trainer.
"""

from __future__ import annotations

from collections import deque

from lightning_perfwatch.measurements import Mark

MOST_MARKS = 256
"""How many marks of each kind are kept, the newest ones."""

WINDOW, VALIDATION, CHECKPOINT = "window", "validation", "checkpoint"


class RunMarks:
    """Collects marks; of each kind one is open at most. Nanoseconds are those of ``time.perf_counter_ns``."""

    def __init__(self) -> None:
        self._begun_ns: int | None = None
        self._open: dict[str, tuple[int, int]] = {}
        self._closed: dict[str, deque[tuple[int, int, int]]] = {}

    def first_step_begins(self, now_ns: int) -> None:
        """The first training step begins; only the first call counts."""
        if self._begun_ns is None:
            self._begun_ns = now_ns

    def since_first_step_s(self, now_ns: int) -> float | None:
        """Seconds since the first step began; None before that, and 0 for what the first step waited for."""
        return None if self._begun_ns is None else max(0, now_ns - self._begun_ns) / 1e9

    def begin(self, kind: str, step: int, now_ns: int) -> None:
        """Something begins before the training step number ``step`` or in it."""
        self._open[kind] = step, now_ns

    def end(self, kind: str, now_ns: int) -> None:
        """It is over; nothing happens where none has begun."""
        begun = self._open.pop(kind, None)
        if begun is not None:
            self._closed.setdefault(kind, deque(maxlen=MOST_MARKS)).append((*begun, now_ns))

    def all(self) -> tuple[Mark, ...]:
        """What is over by now, in order of time."""
        if self._begun_ns is None:
            return ()
        marks = [
            Mark(kind, step, max(0, begin_ns - self._begun_ns) / 1e9, (end_ns - begin_ns) / 1e9)
            for kind, closed in self._closed.items()
            for step, begin_ns, end_ns in closed
        ]
        return tuple(sorted(marks, key=lambda mark: mark.begin_s))
