"""Stand-ins for what this machine does not have, and clocks that only move when a test says so."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from lightning_perfwatch.live.actions import Part
from lightning_perfwatch.live.listener import Listener
from lightning_perfwatch.live.phases import OUTSIDE, PhaseTimer
from lightning_perfwatch.measurements import PHASES


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


BATCH: Script = [
    (FETCH, 8.0),
    (TO_DEVICE, 4.0, ("[LightningModule]Model.transfer_batch_to_device", 1.0)),
    0.5,
    ("run_training_batch", 0.25, (OPTIMIZER_STEP, 2.0, (TRAINING_STEP, 16.0), (ZERO_GRAD, 1.0), (BACKWARD, 32.0), 3.0)),
    (CALLBACK_END, 64.0),
]
BATCH_MS = {
    "data_wait": 8,
    "transfer": 5,
    "forward": 16,
    "backward": 32,
    "optimizer": 6,
    "callbacks": 64,
    "other": 0.75,
}
VALIDATION: Script = [
    3.0,  # the loop sets it up
    ("[LightningModule]Model.on_validation_model_eval", 1.0),
    ("[_EvaluationLoop].val_next", 10.0),
    (TO_DEVICE, 20.0),
    ("[Strategy]SingleDeviceStrategy.validation_step", 40.0),
    ("[Callback]Slow.on_validation_batch_end", 5.0),
    0.5,
]


def play(timer: PhaseTimer | Listener | RecordingProfiler, clock: HostClock, script: Script) -> None:
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


def timer_in_step(**changes: Any) -> PhaseTimer:
    """A timer that has seen the epoch begin and ended a step, so that what follows is the next one."""
    arguments = {"own_key": "PerfWatch", "checkpoint_keys": ["ModelCheckpoint{}"]}
    timer = PhaseTimer(**{**arguments, **changes})
    timer.start(RUN_EPOCH)
    timer.start(FETCH)
    timer.stop(FETCH)
    end_step(timer)
    return timer


def listener_in_step(inner: Any) -> Listener:
    """A listener before ``inner``, which has heard of the same."""
    listener = Listener(inner, PhaseTimer("PerfWatch", ["ModelCheckpoint{}"]))
    listener.start(RUN_EPOCH)
    listener.start(FETCH)
    listener.stop(FETCH)
    end_step(listener.timer)
    return listener


@dataclass(frozen=True)
class Ended:
    """Nanoseconds of one step: by phase, by hook slot, and by part outside of it."""

    phases_ns: list[int]
    hooks_ns: dict[int, int]
    outside_ns: dict[Part, int]


def end_step(timer: PhaseTimer) -> Ended:
    """End the step that ``timer`` is in and take it alone."""
    timer.end_step()
    parts = timer.take()
    slots_ns = zip(timer.meanings, parts.slots_ns[0].tolist(), strict=True)
    return Ended(
        phases_ns=parts.phases_ns[0].tolist(),
        hooks_ns={
            slot: ns
            for slot, (meaning, ns) in enumerate(slots_ns)
            if ns and meaning.hook and meaning.part.phase is not None
        },
        outside_ns={part: ns for part, ns in zip(OUTSIDE, parts.outside_ns[0].tolist(), strict=True) if ns},
    )


def phases_ms(parts: Ended) -> dict[str, float]:
    return {name: ns / 1e6 for name, ns in zip(PHASES, parts.phases_ns, strict=True) if ns}


def outside_ms(parts: Ended) -> dict[Part, float]:
    return {part: ns / 1e6 for part, ns in parts.outside_ns.items()}


def hooks_ms(timer: PhaseTimer, parts: Ended) -> dict[tuple[str | None, str | None], float]:
    return {(timer.meanings[slot].owner, timer.meanings[slot].hook): ns / 1e6 for slot, ns in parts.hooks_ns.items()}
