"""The clocks: the host's, and the device's where it runs on its own.

Owns pooled device events, which are read later and never waited for, and the one place that synchronises a device.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lightning_perfwatch.measurements import PHASES, Seconds

MOST_PENDING_STEPS = 128  # twice as many as go by between two readings
_ASYNCHRONOUS = ("cuda", "xpu", "mps", "hpu", "npu")


class Device:
    """The run's own device: its name, whether it runs on its own, its events and how to wait for it.

    ``num_synchronizations`` counts how often PerfWatch made the host wait.
    """

    def __init__(self, device: torch.device) -> None:
        self.type = device.type
        self.is_asynchronous = device.type in _ASYNCHRONOUS
        self.num_synchronizations = 0
        self._device = device
        self._module: Any = torch.get_device_module(device) if self.is_asynchronous else None

    @property
    def name(self) -> str:
        """The device's name as its driver gives it, or its type."""
        get_name = getattr(self._module, "get_device_name", None)
        return str(get_name(self._device)) if get_name else self.type

    def synchronize(self) -> float:
        """Wait until the device has done all that was asked of it; the seconds this took (0.0 on a CPU)."""
        if not self.is_asynchronous:
            return 0.0
        start_s = time.perf_counter()
        if self.type == "mps":
            self._module.synchronize()
        else:
            self._module.synchronize(self._device)
        self.num_synchronizations += 1
        return time.perf_counter() - start_s

    def event_maker(self) -> Callable[[], Any] | None:
        """Makes device events that keep the time; None where the device has none."""
        event = getattr(self._module, "Event", None)
        return None if event is None else lambda: event(enable_timing=True)


class DeviceMarks:
    """Times the phases of a step on the device's own clock, without ever waiting for it.

    Each change of phase leaves an event in the stream; the span between two of them is what the device needed for
    the first one's phase, idle time included, so the spans of a step add up to the step. They are read when the
    device has passed them, some steps later. Steps that are still pending after 128 further ones stay unmeasured.
    """

    def __init__(self, make_event: Callable[[], Any]) -> None:
        self._make_event = make_event
        self._free: list[Any] = []
        self._open: list[tuple[int, Any]] = []
        self._pending: deque[tuple[int | None, list[tuple[int, Any]]]] = deque()

    def mark(self, phase: int) -> None:
        """From here on in the stream, the device works for the phase with this index."""
        event = self._free.pop() if self._free else self._make_event()
        event.record()
        self._open.append((phase, event))

    def pause(self) -> None:
        """Forget the marks since the last step that was closed; the next step begins with a mark of its own."""
        self._free.extend(event for _, event in self._open)
        self._open = []

    def close_step(self, row: int | None, phase: int) -> None:
        """End the running step, whose times belong into ``row``; the next one begins in ``phase``.

        Without a row the step is dropped: it held more than a step does.
        """
        self.mark(phase)
        self._pending.append((row, self._open))
        self._open = [self._open[-1]]
        if len(self._pending) > MOST_PENDING_STEPS:
            self._release(self._pending.popleft()[1])

    def read(self) -> list[tuple[int, Seconds]]:
        """The steps that the device has finished since the last call: row and seconds by phase."""
        done: list[tuple[int, Seconds]] = []
        while self._pending and self._pending[0][1][-1][1].query():
            row, marks = self._pending.popleft()
            if row is not None:
                seconds = np.zeros(len(PHASES))
                for (phase, start), (_, end) in itertools.pairwise(marks):
                    seconds[phase] += start.elapsed_time(end) / 1e3
                done.append((row, seconds))
            self._release(marks)
        return done

    def _release(self, marks: list[tuple[int, Any]]) -> None:
        self._free.extend(event for _, event in marks[:-1])  # the last one opens the next step
