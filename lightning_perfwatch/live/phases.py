"""Splits the wall clock of a fit by listening through Lightning's Profiler interface.

Owns the listener and exclusive times. Reads clocks; knows no schedule, no rule and no report.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.live.contexts import (
    ActionContext,
    ForwardedContext,
    SilentContext,
    TransparentContext,
    context_kind,
)
from lightning_perfwatch.measurements import PHASES

LOGGING = "Lightning's logging"
MOST_EPOCHS = 1024
"""How many starts of epochs are kept, the newest ones."""

OUTSIDE = tuple(part for part in Part if part.phase is None)
"""The parts that belong to no step, in the order of the columns of :attr:`StepParts.outside_ns`."""

Nanoseconds = npt.NDArray[np.int64]
_Own = ActionContext | SilentContext


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
    """Stands in for ``trainer.profiler`` and gives each nanosecond to exactly one action.

    At every start and stop of an action the time since the last one goes to the action that was innermost, so times
    are exclusive and add up to the wall clock. The user's own profiler keeps working behind it: it gets every call,
    and whatever else is asked of this object.

    Args:
        inner: the profiler that the Trainer had.
        own_key: state key of the PerfWatch callback, whose hooks are its own cost.
        checkpoint_keys: state keys of the callbacks that write checkpoints.
        device: marks on the device's clock, None where the device is not asynchronous.
        workers_start: whether the first wait of an epoch is for workers to start, and so no wait of a steady step.
        silent: actions in which nothing happens; their time stays with what they lie in.
    """

    profile: Callable[[str], _Own | ForwardedContext]

    def __init__(
        self,
        inner: Any,
        own_key: str,
        checkpoint_keys: Collection[str] = (),
        device: DeviceMarks | None = None,
        *,
        workers_start: bool = False,
        silent: Collection[str] = (),
    ) -> None:
        self.device = device
        self.workers_start = workers_start
        self.fetch_observer: FetchObserver | None = None
        self.meanings: list[Meaning] = []
        self.own_slots: set[int] = set()
        self.epoch_starts_ns: deque[tuple[int, int]] = deque(maxlen=MOST_EPOCHS)
        self.num_epochs = 0
        self._own_prefix = f"[Callback]{own_key}."
        self._checkpoint_keys = frozenset(checkpoint_keys)
        self._silent = frozenset(silent)
        self._actions = _Actions(self._new_action)
        self._put_before(inner)
        self.ns: list[int] = []  # by slot, since the fit began; contexts hold it and the stack, so both stay the same
        self._training_ns: list[int] | None = None  # set aside while validation runs
        self.between_epochs = self._new_slot(Meaning(Part.EPOCH_START))
        self.loop = self._new_slot(Meaning(Part.OTHER))
        self.logging = self._new_slot(Meaning(Part.CALLBACKS, LOGGING, "after the batch"))
        self.manual_backward = self._new_slot(Meaning(Part.BACKWARD))
        self._validation = self._new_slot(Meaning(Part.VALIDATION))
        self._checkpoint = self._new_slot(Meaning(Part.CHECKPOINT))
        self.stack = [self.between_epochs]  # the innermost action comes last
        self.capture = ActionContext(self, self._new_slot(Meaning(Part.CAPTURE)))
        self.edge = ActionContext(self, self._new_slot(Meaning(Part.EDGE)))
        self._enclosed = TransparentContext(self, self.loop)
        self._ends: deque[array[int]] = deque()  # the sums at the end of each step
        self._taken = array("q")
        self._column_of_slot = np.zeros((0, len(_COLUMNS)))
        self.iterator_since_ns: int | None = None
        self.last_ns = perf_counter_ns()

    def _forwarded(self, action_name: str) -> ForwardedContext:
        return ForwardedContext(self._actions[action_name], self.inner.profile(action_name))

    def start(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` begins."""
        if self._forwards:
            self.inner.start(action_name)
        self._actions[action_name].__enter__()

    def stop(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` has ended."""
        self._actions[action_name].__exit__(None, None, None)
        if self._forwards:
            self.inner.stop(action_name)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, or lost in a copy: there is nothing to ask
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        """A copy of the Trainer that goes elsewhere takes the profiler that is its own."""
        return _itself, (self.inner,)

    def _put_before(self, inner: Any) -> None:
        self.inner = inner
        self._forwards = type(inner).__name__ != "PassThroughProfiler"
        self.profile = self._forwarded if self._forwards else self._actions.__getitem__

    def remove_from(self, trainer: Any) -> None:
        """Give ``trainer`` back the profiler it had; other listeners that came later stay."""
        if trainer.profiler is self:
            trainer.profiler = self.inner
            return
        listener = trainer.profiler
        while isinstance(listener, PhaseTimer):
            if listener.inner is self:
                listener._put_before(self.inner)
                return
            listener = listener.inner

    def flush(self) -> int:
        """Give the time since the last change to the innermost action; the time now in nanoseconds."""
        now_ns = perf_counter_ns()
        self.ns[self.stack[-1]] += now_ns - self.last_ns
        self.last_ns = now_ns
        return now_ns

    def enter_validation(self) -> None:
        """From here on all is validation, and so is the time since training's last action: the loop set it up."""
        if self.is_training:
            self._training_ns = self.ns.copy()
            self.ns[:] = [0] * len(self.ns)

    def leave_validation(self) -> None:
        """Back to training; what validation took becomes a sum of its own, and so do the checkpoints within it."""
        if self._training_ns is None:
            return
        self.flush()
        validation_ns = self.ns.copy()
        self.ns[:] = self._training_ns + [0] * (len(validation_ns) - len(self._training_ns))
        self._training_ns = None
        for meaning, spent_ns in zip(self.meanings, validation_ns, strict=True):
            self.ns[self._checkpoint if meaning.part is Part.CHECKPOINT else self._validation] += spent_ns

    @property
    def is_training(self) -> bool:
        """False while validation runs."""
        return self._training_ns is None

    def end_step(self) -> None:
        """End the running step here and begin the next one."""
        self.leave_validation()
        self.flush()
        self._ends.append(array("q", self.ns))

    def take(self, num_steps: int | None = None) -> StepParts:
        """The oldest ``num_steps`` of the steps that have ended and were not taken yet, by default all of them."""
        ends = [self._ends.popleft() for _ in range(len(self._ends) if num_steps is None else num_steps)]
        rows = np.zeros((len(ends) + 1, len(self.ns)), dtype=np.int64)
        for row, sums in zip(rows, (self._taken, *ends), strict=True):
            row[: len(sums)] = sums  # a slot that is younger than a step took nothing of it
        if ends:
            self._taken = ends[-1]
        slots_ns = np.diff(rows, axis=0)
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
        self.ns.append(0)
        return len(self.meanings) - 1

    def _new_action(self, name: str) -> _Own:
        meaning = actions.meaning(name, self._checkpoint_keys)
        if meaning.part is Part.ENCLOSING:  # the user's own, and there may be any number of them
            return self._enclosed
        kind = context_kind(name, meaning, on_device=self.device is not None)
        if name in self._silent and kind is ActionContext:
            return self._actions.setdefault(name, _SILENT)
        slot = self._new_slot(meaning)
        if name.startswith(self._own_prefix):
            self.own_slots.add(slot)
        return self._actions.setdefault(name, kind(self, slot))


class _Actions(dict[str, _Own]):
    """The context of every action, made once for each name."""

    def __init__(self, make: Callable[[str], _Own]) -> None:
        self._make = make

    def __missing__(self, name: str) -> _Own:
        return self._make(name)


_SILENT = SilentContext()
_COLUMNS = [*PHASES, *(part.value for part in OUTSIDE)]


def _itself(profiler: Any) -> Any:
    return profiler
