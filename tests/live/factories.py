"""Stand-ins for what this machine does not have, and clocks that only move when a test says so."""

from __future__ import annotations

import itertools
from typing import Any

from lightning_perfwatch.live.phases import PhaseTimer


class HostClock:
    """Reads in nanoseconds what :meth:`pass_ms` has let go by; its readings begin far from zero."""

    def __init__(self) -> None:
        self.now_ns = 10**15

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, ms: float) -> None:
        self.now_ns += round(ms * 1e6)


class Stream:
    """An asynchronous device's queue: work takes device time, the host runs ahead and may never wait here."""

    def __init__(self) -> None:
        self.host_ms = 0.0
        self.done_ms = 0.0
        self.events_made = 0

    def launch(self, work_ms: float) -> None:
        """Queue ``work_ms`` of work; it begins when the device is free, at once if it is idle."""
        self.done_ms = max(self.done_ms, self.host_ms) + work_ms

    def make_event(self) -> Event:
        self.events_made += 1
        return Event(self)


class Event:
    """Passed when all work that was queued before it is done, as a ``torch.cuda.Event`` is."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._at_ms: float | None = None

    def record(self) -> None:
        self._at_ms = max(self._stream.done_ms, self._stream.host_ms)

    def query(self) -> bool:
        return self._at_ms is None or self._at_ms <= self._stream.host_ms

    def elapsed_time(self, end: Event) -> float:
        if not self.query() or not end.query():
            raise RuntimeError("device not ready")
        assert self._at_ms is not None
        assert end._at_ms is not None
        return end._at_ms - self._at_ms

    def synchronize(self) -> None:
        raise AssertionError("an event was waited for")


class RecordingProfiler:
    """A profiler of the user's own that notes every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.describes_itself = "the user's"

    def start(self, action: str) -> None:
        self.calls.append(("start", action))

    def stop(self, action: str) -> None:
        self.calls.append(("stop", action))

    def profile(self, action: str) -> _Noted:
        return _Noted(self, action)


class _Noted:
    def __init__(self, profiler: RecordingProfiler, action: str) -> None:
        self._profiler = profiler
        self._action = action

    def __enter__(self) -> None:
        self._profiler.start(self._action)

    def __exit__(self, *exception: Any) -> None:
        self._profiler.stop(self._action)


class PassThroughProfiler(RecordingProfiler):
    """Named as Lightning's default, which needs to hear of nothing."""


FETCH = "[_TrainingEpochLoop].train_dataloader_next"
TO_DEVICE = "[Strategy]SingleDeviceStrategy.batch_to_device"
TRAINING_STEP = "[Strategy]SingleDeviceStrategy.training_step"
BACKWARD = "[Strategy]SingleDeviceStrategy.backward"
OPTIMIZER_STEP = "[LightningModule]Model.optimizer_step"
ZERO_GRAD = "[LightningModule]Model.optimizer_zero_grad"
BATCH_END = "[LightningModule]Model.on_train_batch_end"
CALLBACK_END = "[Callback]Slow.on_train_batch_end"
RUN_EPOCH = "run_training_epoch"

Script = list[Any]
"""What a loop does: a number of milliseconds, or an action's name with what happens in it."""


def play(timer: PhaseTimer, clock: HostClock, script: Script) -> None:
    """Go through ``script``, announcing its actions in turn by ``profile`` and by ``start`` and ``stop``."""
    for number, part in zip(itertools.count(), script, strict=False):
        if isinstance(part, tuple):
            name, *inner = part
            if number % 2:
                with timer.profile(name):
                    play(timer, clock, inner)
            else:
                timer.start(name)
                play(timer, clock, inner)
                timer.stop(name)
        else:
            clock.pass_ms(part)
