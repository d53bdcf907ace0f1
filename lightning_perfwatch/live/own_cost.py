"""What PerfWatch costs the training that it watches, gathered from where each part of it is measured.

Owns the names of a step's actions. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.listener import Listener
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.rehearsal import rehearse
from lightning_perfwatch.live.steps import StepLog
from lightning_perfwatch.measurements import Overhead, Window

_COUNTED_STEP = 2  # the first one in which everything has happened once


class OwnCost:
    """The cost of one fit's watching; ``new_timer`` makes a timer like the fit's, to be rehearsed with.

    The processes that read the traces add their own cost to the report.
    """

    def __init__(self, new_timer: Callable[[], PhaseTimer]) -> None:
        self._new_timer = new_timer
        self._names: list[str] = []
        self._listening_s: float | None = None
        self._spared_s: float | None = None

    def note_actions(self, listener: Listener, step: int) -> None:
        """The step number ``step`` has ended: note what is announced in the next one, if that is the one to count."""
        if step == _COUNTED_STEP - 1:
            listener.count_actions(self._names)
        elif step == _COUNTED_STEP:
            listener.count_actions(None)

    def rehearse(self, listener: Listener) -> None:
        """Find out what listening costs; takes some milliseconds, and so is for after the training."""
        if self._names and listener.replaces:
            self._listening_s = rehearse(self._new_timer().profile, self._names)
            self._spared_s = rehearse(type(listener.inner)().profile, self._names)

    def overhead(self, steps: StepLog, timer: PhaseTimer, windows: Iterable[Window], budget: Budget) -> Overhead:
        """All that is known now."""
        hook_s, num_steps = steps.own_hooks(timer.meanings, timer.own_slots)
        stops_s = [window.stop_s for window in windows if window.stop_s is not None]
        exports_s = [window.export_s for window in windows if window.export_s is not None]
        return Overhead(
            hooks_s=sum(hook_s.values()),
            num_steps=num_steps,
            capture_s=steps.wall_s()["capture"],
            hook_s=hook_s,
            listening_s=self._listening_s,
            spared_s=self._spared_s,
            stop_s=sum(stops_s) if stops_s else None,
            export_s=sum(exports_s) if exports_s else None,
            recording_s=steps.recording_s(timer.meanings),
            num_windows_left_out=budget.num_left_out,
        )
