"""The window that all shares refer to: from the first step's start to where the steps' work is done."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.trace import Trace, once


@dataclass(frozen=True)
class Window:
    """A span of the trace, in its microseconds."""

    start_us: float
    end_us: float

    @property
    def dur_us(self) -> float:
        """Length in microseconds."""
        return self.end_us - self.start_us

    @property
    def dur_s(self) -> float:
        """Length in seconds."""
        return self.dur_us / 1e6


@once
def window_of(trace: Trace) -> Window:
    """First step's start to the later of the last step's end and the end of its last device work.

    A host that runs ahead of the device leaves its last step long before the work is done, so the host's end
    alone would make the window too short. Work that the host launched after the last step (a validation that
    the profiler still saw) belongs to no step and does not stretch it. Without steps: first to last event.
    """
    if len(trace.steps) == 0:
        return Window(trace.start_us, trace.end_us)
    end_us = float(trace.steps.end_us.max())
    work = trace.device_work
    later = trace.launched_us(work) >= end_us  # False for NaN: without a launch record the work counts
    return Window(float(trace.steps.start_us[0]), float(np.max(work.end_us[~later], initial=end_us)))
