"""How much of the training time PerfWatch may cost: decides when it has to do less.

Pure arithmetic: times are arguments. Knows no clock, no profiler and no Trainer.
"""

from __future__ import annotations

MOST_STRIDE = 16
_JUDGED_S = 1.0


class Budget:
    """Holds what can still be chosen, repeated windows and the work in its hooks, below a share of the training time.

    Windows that the user asked for, the schedule's first and those on request, don't count: in a short run nothing
    could pay for them. Any other has to be affordable when it begins, by what windows took so far. Hooks are judged
    once per second of training; as long as they cost too much, ``stride`` doubles up to 16: only every ``stride``-th
    time are metrics logged and the device's clock read.

    Args:
        max_share: share (0..1] of the training time, None for no limit.
    """

    def __init__(self, max_share: float | None) -> None:
        self.max_share = max_share
        self.stride = 1
        self.hooks_share: float | None = None
        self.num_left_out = 0
        self._num_windows = 0
        self._was_asked = True
        self._asked_s = 0.0
        self._settled_s = 0.0
        self._refused: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._training_s = 0.0
        self._hooks_s = 0.0
        self._judged_s = 0.0

    def add_steps(self, training_s: float, hooks_s: float) -> None:
        """Steps of ``training_s`` in all, of which PerfWatch's own hooks took ``hooks_s``."""
        self._training_s += training_s
        self._judged_s += training_s
        self._hooks_s += hooks_s
        if self.max_share is None or self._judged_s < _JUDGED_S:
            return
        share = self._hooks_s / self._judged_s
        if share > self.max_share and self.stride < MOST_STRIDE:
            self.hooks_share = share if self.hooks_share is None else self.hooks_share
            self.stride *= 2
        self.start_over()

    def start_over(self) -> None:
        """What the hooks took until now was for once, and is not judged."""
        self._judged_s = self._hooks_s = 0.0

    def begins_window(self, spent_s: float, *, is_asked: bool) -> bool:
        """Whether a window may begin now that all windows until now took ``spent_s``; it is counted if not.

        ``is_asked`` says that the user asked for it.
        """
        if self._was_asked:
            self._asked_s += spent_s - self._settled_s
        self._settled_s = spent_s
        if not is_asked and not self._affords(spent_s):
            return False
        self._num_windows += 1
        self._was_asked = is_asked
        return True

    def _affords(self, spent_s: float) -> bool:
        if self.max_share is None or self._num_windows == 0:
            return True
        expected_s = spent_s / self._num_windows
        allowed_s = self.max_share * self._training_s - (spent_s - self._asked_s)
        if expected_s <= allowed_s:
            return True
        self.num_left_out += 1
        self._refused = (expected_s, max(0.0, allowed_s), self._training_s)
        return False

    def notes(self) -> list[str]:
        """What was done less for it, in one sentence each."""
        notes = []
        if self.num_left_out:
            expected_s, allowed_s, training_s = self._refused
            notes.append(
                f"{self.num_left_out} further {'window was' if self.num_left_out == 1 else 'windows were'} left out: "
                f"one takes {expected_s * 1e3:.0f} ms, and after {training_s:.1f} s of training "
                f"max_overhead_share={self.max_share:g} left {allowed_s * 1e3:.0f} ms for it"
            )
        if self.hooks_share is not None:
            notes.append(
                f"PerfWatch's hooks took {self.hooks_share * 100:.1f} % of the training time and "
                f"max_overhead_share={self.max_share:g} allows less: only every {self.stride}th time that it is due it "
                "logs its metrics and reads the device's clock"
            )
        return notes
