"""Splits the wall clock of a fit by listening through Lightning's Profiler interface.

Owns exclusive times. Reads clocks; knows no schedule, no rule and no report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.live.contexts import (
    ActionContext,
    OwnContext,
    SilentContext,
    TransparentContext,
    context_kind,
)
from lightning_perfwatch.live.run_marks import VALIDATION, WINDOW, RunMarks
from lightning_perfwatch.live.stopwatch import Nanoseconds, Stopwatch
from lightning_perfwatch.measurements import PHASES

LOGGING = "Lightning's logging"
MOST_EPOCHS = 1024
"""How many starts of epochs are kept, the newest ones."""

OUTSIDE = tuple(part for part in Part if part.phase is None)
"""The parts that belong to no step, in the order of the columns of :attr:`StepParts.outside_ns`."""


class FetchObserver(Protocol):
    """Told when the training loop asks for a batch and when it has its answer."""

    def fetch_begins(self) -> None:
        """The loop asks its loader for the next batch: a training step begins."""

    def fetch_ends(self) -> None:
        """The loader has answered."""


@dataclass(frozen=True)
class StepParts:
    """Nanoseconds of steps that followed each other, a row for each.

    ``phases_ns`` has a column for each of ``PHASES``, ``outside_ns`` one for each of :data:`OUTSIDE`, both together
    are the wall clock since the step before. ``slots_ns`` are the same times by slot of the :class:`PhaseTimer`.
    """

    phases_ns: Nanoseconds
    outside_ns: Nanoseconds
    slots_ns: Nanoseconds

    @property
    def num_steps(self) -> int:
        """How many steps these are."""
        return len(self.phases_ns)


class PhaseTimer:
    """Is told of Lightning's actions as a profiler is, and gives each nanosecond to exactly one of them.

    At every start and stop of an action the time since the last one goes to the action that was innermost, so times
    are exclusive and add up to the wall clock. The user's own profiler keeps working behind it: it gets every call,
    and whatever else is asked of this object.

    Args:
        own_key: state key of the PerfWatch callback, whose hooks are its own cost.
        checkpoint_keys: state keys of the callbacks that write checkpoints.
        device: marks on the device's clock, None where the device is not asynchronous.
        workers_start: whether the first wait of an epoch is for workers to start, and so no wait of a steady step.
        silent: actions in which nothing happens; their time stays with what they lie in.
    """

    def __init__(
        self,
        own_key: str,
        checkpoint_keys: Collection[str] = (),
        device: DeviceMarks | None = None,
        *,
        workers_start: bool = False,
        silent: Collection[str] = (),
    ) -> None:
        self.device = device  # None also while a step leaves no marks
        self._marks = device
        self.workers_start = workers_start
        self.fetch_observer: FetchObserver | None = None
        self.window_observer: Callable[[bool], None] | None = None
        self.meanings: list[Meaning] = []
        self.own_slots: set[int] = set()
        self.epoch_starts_ns: deque[tuple[int, int]] = deque(maxlen=MOST_EPOCHS)
        self.num_epochs = 0
        self.num_validations = 0
        self.num_checkpoints = 0
        self._own_prefix = f"[Callback]{own_key}."
        self._checkpoint_keys = frozenset(checkpoint_keys)
        self._silent = frozenset(silent)
        self._actions = _Actions(self._new_action)
        self.profile = self._actions.__getitem__  # a context for an action's name, without a Python call
        self.watch = Stopwatch()
        self.marks = RunMarks()
        self.between_epochs = self._new_slot(Meaning(Part.EPOCH_START))
        self.loop = self._new_slot(Meaning(Part.OTHER))
        self.logging = self._new_slot(Meaning(Part.CALLBACKS, LOGGING, "after the batch"))
        self.manual_backward = self._new_slot(Meaning(Part.BACKWARD))
        self._validation = self._new_slot(Meaning(Part.VALIDATION))
        self._checkpoint = self._new_slot(Meaning(Part.CHECKPOINT))
        self.watch.stack.append(self.between_epochs)
        self.capture = ActionContext(self, self._new_slot(Meaning(Part.CAPTURE)))
        self.edge = ActionContext(self, self._new_slot(Meaning(Part.EDGE)))
        self._enclosed = TransparentContext(self, self.loop)
        self._column_of_slot = np.zeros((0, len(_COLUMNS)))
        self.iterator_since_ns: int | None = None

    def start(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` begins."""
        self._actions[action_name].__enter__()

    def stop(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` has ended."""
        self._actions[action_name].__exit__(None, None, None)

    def enter_validation(self) -> None:
        """From here on all is validation, and so is the time since training's last action: the loop set it up."""
        if not self.watch.is_interrupted:
            self.num_validations += 1
            self.marks.begin(VALIDATION, self.watch.num_ended, self.watch.last_ns)
        self.watch.interrupt()

    def leave_validation(self) -> None:
        """Back to training; what validation took becomes a sum of its own, and so do the checkpoints within it."""
        if self.watch.is_interrupted:
            # before validation the device may still be at work on steps: that wait stays one at an edge
            own = {Part.CHECKPOINT: self._checkpoint, Part.EDGE: self.edge.slot}
            for meaning, spent_ns in zip(self.meanings, self.watch.resume(), strict=True):
                self.watch.ns[own.get(meaning.part, self._validation)] += spent_ns
            self.marks.end(VALIDATION, self.watch.last_ns)

    def window_begins(self) -> None:
        """From here on a trace is recorded."""
        self.marks.begin(WINDOW, self.watch.num_ended, self.watch.lap())
        if self.window_observer is not None:
            self.window_observer(True)

    def window_ends(self) -> None:
        """It is over, and its trace is written; nothing happens where none has begun."""
        self.marks.end(WINDOW, self.watch.lap())
        if self.window_observer is not None:
            self.window_observer(False)

    @property
    def is_training(self) -> bool:
        """False while validation runs."""
        return not self.watch.is_interrupted

    @property
    def capture_s(self) -> float:
        """Seconds that starting, stopping and writing profiles took since the fit began."""
        return self.watch.ns[self.capture.slot] / 1e9

    def end_step(self) -> None:
        """End the running step here and begin the next one."""
        if self.watch.is_interrupted:
            self.leave_validation()
        self.watch.end_step()

    def end_step_on_device(self, row: int, stride: int = 1) -> None:
        """End the step on the device's clock too; only every ``stride``-th step leaves marks there."""
        marks = self._marks
        if marks is None:
            return
        if self.device is not None:
            marks.close_step(row, _CALLBACKS)
        if stride == 1 and self.device is not None:
            return
        marks.pause()
        self.device = marks if (row + 1) % stride == 0 else None
        if self.device is not None:
            marks.mark(_CALLBACKS)

    def take(self, num_steps: int | None = None) -> StepParts:
        """The oldest ``num_steps`` of the steps that have ended and were not taken yet, by default all of them."""
        slots_ns = self.watch.take(num_steps)
        by_part = (slots_ns.astype(np.float64) @ self._columns()).astype(np.int64)  # floats are exact for 100 days
        return StepParts(by_part[:, : len(PHASES)], by_part[:, len(PHASES) :], slots_ns)

    def _columns(self) -> npt.NDArray[np.float64]:
        """Which slot adds to which column of phases and outside parts, shape (slots, columns)."""
        if len(self._column_of_slot) != len(self.meanings):
            self._column_of_slot = np.zeros((len(self.meanings), len(_COLUMNS)))
            for slot, meaning in enumerate(self.meanings):
                self._column_of_slot[slot, _COLUMNS.index(meaning.part.value)] = 1.0
        return self._column_of_slot

    def _new_slot(self, meaning: Meaning) -> int:
        self.meanings.append(meaning)
        return self.watch.new_slot()

    def _new_action(self, name: str) -> OwnContext:
        meaning = actions.meaning(name, self._checkpoint_keys)
        if meaning.part is Part.ENCLOSING:  # the user's own, and there may be any number of them
            return self._enclosed
        if name in self._silent:
            return self._actions.setdefault(name, _SILENT)
        slot = self._new_slot(meaning)
        if name.startswith(self._own_prefix):
            self.own_slots.add(slot)
        kind = context_kind(name, meaning, on_device=self._marks is not None)
        return self._actions.setdefault(name, kind(self, slot))


class _Actions(dict[str, OwnContext]):
    """The context of every action, made once for each name."""

    def __init__(self, make: Callable[[str], OwnContext]) -> None:
        self._make = make

    def __missing__(self, name: str) -> OwnContext:
        return self._make(name)


_SILENT = SilentContext()
_CALLBACKS = PHASES.index("callbacks")
_COLUMNS = [*PHASES, *(part.value for part in OUTSIDE)]
