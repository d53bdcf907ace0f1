"""When to look: which training step is audited, warmed up or recorded.

A pure function of the step number. Knows nothing of Trainers, profilers or clocks.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property

MOST_AUDITED_STEPS = 2
LARGE_WINDOW_STEPS = 100
MOST_STEPS = 10**9


class Action(Enum):
    """What PerfWatch does with a training step."""

    IDLE = "idle"
    AUDIT = "audit"
    WARMUP = "warmup"
    ACTIVE = "active"


@dataclass(frozen=True)
class Schedule:
    """Which training steps are profiled; a step is one batch of the training loop, counted from 0 in each fit.

    The first ``skip_first`` steps are left alone. Then ``repeat`` windows follow, each of ``wait`` steps without the
    profiler, ``warmup`` steps whose recording is thrown away, and ``active`` steps that are kept. The last two steps
    before the first warmup are audited for calls that wait for the device (or, if the first window begins at once,
    the two steps after the last one).

    Raises:
        ValueError: a field is no whole number or too small. At least one warmup step is needed: the first step under
            the profiler pays for its start, and the size of the trace is estimated there.
    """

    skip_first: int = 10
    wait: int = 10
    warmup: int = 2
    active: int = 5
    repeat: int = 1

    def __post_init__(self) -> None:
        least = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 1, "repeat": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(
                    f"Schedule.{field.name} must be a whole number of steps, got {value!r} of type "
                    f"{type(value).__name__}."
                )
            if value > MOST_STEPS:
                raise ValueError(f"Schedule.{field.name} must be at most {MOST_STEPS}, got {value}.")
            if value < least[field.name]:
                raise ValueError(f"Schedule.{field.name} must be at least {least[field.name]}, got {value}.")
        if self.active > LARGE_WINDOW_STEPS:
            warnings.warn(
                f"Schedule.active={self.active} records more steps than an analysis needs; 5 to 20 are enough, and "
                f"the trace and the memory to hold it grow with every step.",
                UserWarning,
                stacklevel=3,
            )

    @cached_property
    def cycle(self) -> int:
        """Steps from one window's first waiting step to the next one's."""
        return self.wait + self.warmup + self.active

    @cached_property
    def end(self) -> int:
        """The first step after the last window."""
        return self.skip_first + self.cycle * self.repeat

    @cached_property
    def audit(self) -> range:
        """The audited steps."""
        warmup_start = self.skip_first + self.wait
        if warmup_start > 0:
            return range(max(0, warmup_start - MOST_AUDITED_STEPS), warmup_start)
        return range(self.end, self.end + MOST_AUDITED_STEPS)

    @cached_property
    def _last(self) -> int:
        """From this step on there is nothing to do."""
        return max(self.end, self.audit.stop)

    def action(self, step: int) -> Action:
        """What to do with the training step number ``step``."""
        if step >= self._last:
            return Action.IDLE
        since_start = step - self.skip_first
        if since_start >= 0 and step < self.end:
            position = since_start % self.cycle
            if position >= self.wait + self.warmup:
                return Action.ACTIVE
            if position >= self.wait:
                return Action.WARMUP
        return Action.AUDIT if step in self.audit else Action.IDLE

    def next_change(self, step: int) -> int:
        """A later step up to which every step gets the same action as ``step``, as far off as it is easily told."""
        edges = [self.skip_first, self.audit.start, self.audit.stop]
        if self.skip_first <= step < self.end:
            start = self.skip_first + (step - self.skip_first) // self.cycle * self.cycle
            edges += [start + self.wait, start + self.wait + self.warmup, start + self.cycle]
        return min((edge for edge in edges if edge > step), default=sys.maxsize)

    def window(self, step: int) -> range:
        """The recorded steps of the window that the WARMUP or ACTIVE step ``step`` belongs to."""
        start = self.skip_first + (step - self.skip_first) // self.cycle * self.cycle
        return range(start + self.wait + self.warmup, start + self.cycle)
