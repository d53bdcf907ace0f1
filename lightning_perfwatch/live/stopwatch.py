"""The sums of time by action: what the running step adds to, and a copy of them for each step that has ended.

Owns the clock's last reading and the innermost action. Knows slots only, not what they mean.
"""

from __future__ import annotations

from array import array
from collections import deque
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

Nanoseconds = npt.NDArray[np.int64]


class Stopwatch:
    """Nanoseconds by slot since the fit began; at any time the slot on top of ``stack`` is the one that runs.

    It is used some twenty times a step, so it has slots, and those who use it keep hold of ``ns`` and ``stack``,
    which stay the same lists. A step's end only copies the sums.
    """

    __slots__ = ("_ends", "_num_taken", "_set_aside", "_taken", "last_ns", "ns", "stack")

    def __init__(self) -> None:
        self.ns: list[int] = []
        self.stack: list[int] = []
        self._set_aside: list[int] | None = None
        self._ends: deque[array[int]] = deque()
        self._taken = array("q")
        self._num_taken = 0
        self.last_ns = perf_counter_ns()

    def new_slot(self) -> int:
        """One more slot, which took nothing so far."""
        for sums in (self.ns, self._taken, *self._ends):
            sums.append(0)
        if self._set_aside is not None:
            self._set_aside.append(0)
        return len(self.ns) - 1

    def lap(self) -> int:
        """Give the time since the last change to the innermost action; the time now in nanoseconds."""
        now_ns = perf_counter_ns()
        self.ns[self.stack[-1]] += now_ns - self.last_ns
        self.last_ns = now_ns
        return now_ns

    @property
    def is_interrupted(self) -> bool:
        """Whether the sums are set aside."""
        return self._set_aside is not None

    @property
    def num_ended(self) -> int:
        """How many steps have ended: the number of the one that runs."""
        return self._num_taken + len(self._ends)

    def interrupt(self) -> None:
        """Set the sums aside and count from zero; what was not yet given to an action counts there."""
        if self._set_aside is None:
            self._set_aside = self.ns.copy()
            self.ns[:] = [0] * len(self.ns)

    def resume(self) -> list[int]:
        """Go on with the sums that were set aside; those since then, in nanoseconds by slot."""
        assert self._set_aside is not None
        self.lap()
        between_ns = self.ns.copy()
        self.ns[:] = self._set_aside
        self._set_aside = None
        return between_ns

    def end_step(self) -> None:
        """A step ends here and the next one begins."""
        now_ns = perf_counter_ns()
        self.ns[self.stack[-1]] += now_ns - self.last_ns
        self.last_ns = now_ns
        self._ends.append(array("q", self.ns))

    def take(self, num_steps: int | None = None) -> Nanoseconds:
        """The oldest ``num_steps`` steps (None: all) that have ended and were not taken, shape (steps, slots)."""
        ends = [self._ends.popleft() for _ in range(len(self._ends) if num_steps is None else num_steps)]
        sums = np.frombuffer(b"".join((self._taken, *ends)), dtype=np.int64).reshape(len(ends) + 1, len(self.ns))
        if ends:
            self._taken = ends[-1]
            self._num_taken += len(ends)
        return np.diff(sums, axis=0)
