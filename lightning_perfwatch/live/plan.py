"""What is done with each step: the schedule's windows, and one that was opened on demand.

A pure function of the step number, as the schedule is. Knows not who asked for the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lightning_perfwatch.live.schedule import Action, Schedule


@dataclass(frozen=True)
class Plan:
    """A schedule, and the newest window that was opened beside it.

    Args:
        schedule: what goes on as it was set.
        start: the first warmup step of the other window, which has as many steps as those of the schedule; None
            without one.
    """

    schedule: Schedule
    start: int | None = None

    @property
    def on_demand(self) -> range:
        """The recorded steps of the window beside the schedule; empty without one."""
        if self.start is None:
            return range(0)
        first = self.start + self.schedule.warmup
        return range(first, first + self.schedule.active)

    def with_window(self, step: int) -> Plan:
        """The plan with another window, as soon from ``step`` on as the first steps and the schedule leave room."""
        start = max(step, self.schedule.skip_first)
        while (blocked := self._first_blocked(start)) is not None:
            start = self._after(blocked)
        return replace(self, start=start)

    def _first_blocked(self, start: int) -> int | None:
        """The first step of a window from ``start`` on that the schedule needs itself."""
        step, end = start, start + self.schedule.warmup + self.schedule.active
        while step < end:
            if self.schedule.action(step) is not Action.IDLE:
                return step
            step = self.schedule.next_change(step)
        return None

    def _after(self, step: int) -> int:
        """A later step than the busy one ``step`` that is the schedule's no longer."""
        schedule = self.schedule
        if step < schedule.end and schedule.wait < schedule.warmup + schedule.active:
            return schedule.end  # no room between the windows, and there may be a million of them
        return schedule.next_change(step)

    def action(self, step: int) -> Action:
        """What to do with the training step number ``step``."""
        if self.start is not None:
            position = step - self.start
            if 0 <= position < self.schedule.warmup:
                return Action.WARMUP
            if step in self.on_demand:
                return Action.ACTIVE
        return self.schedule.action(step)

    def next_change(self, step: int) -> int:
        """A later step up to which every step gets the same action as ``step``, as far off as it is easily told."""
        change = self.schedule.next_change(step)
        if self.start is None:
            return change
        edges = (self.start, self.on_demand.start, self.on_demand.stop)
        return min([change, *(edge for edge in edges if edge > step)])

    def window(self, step: int) -> range:
        """The recorded steps of the window that the WARMUP or ACTIVE step ``step`` belongs to."""
        if self.start is not None and self.start <= step < self.on_demand.stop:
            return self.on_demand
        return self.schedule.window(step)

    def is_first(self, window: range) -> bool:
        """Whether ``window`` is the schedule's first one."""
        return window == self.schedule.window(self.schedule.skip_first)
