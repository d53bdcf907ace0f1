"""Splits the wall clock of a fit by listening through Lightning's Profiler interface.

Owns the listener and exclusive times. Reads clocks; knows no schedule, no rule and no report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.live.contexts import PHASE_OF, ActionContext, ForwardedContext, context_kind
from lightning_perfwatch.measurements import PHASES

LOGGING = "Lightning's logging"
MOST_EPOCHS = 1024
"""How many starts of epochs are kept, the newest ones."""


class FetchObserver(Protocol):
    """Told when the training loop asks for a batch and when it has its answer."""

    def fetch_begins(self) -> None:
        """The loop asks its loader for the next batch: a training step begins."""

    def fetch_ends(self) -> None:
        """The loader has answered."""


@dataclass(frozen=True)
class StepParts:
    """Nanoseconds since the last step ended: by phase, by hook slot, and by part outside the step."""

    phases_ns: list[int]
    hooks_ns: dict[int, int]
    outside_ns: dict[Part, int]


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
    """

    def __init__(
        self,
        inner: Any,
        own_key: str,
        checkpoint_keys: Collection[str] = (),
        device: DeviceMarks | None = None,
        *,
        workers_start: bool = False,
    ) -> None:
        self.device = device
        self.workers_start = workers_start
        self._put_before(inner)
        self.fetch_observer: FetchObserver | None = None
        self.meanings: list[Meaning] = []
        self._phase_of: list[int | None] = []  # by slot; an enum as a key would cost more than all the rest
        self._has_validated = False
        self.own_slots: set[int] = set()
        self.epoch_starts_ns: deque[tuple[int, int]] = deque(maxlen=MOST_EPOCHS)
        self.num_epochs = 0
        self.num_validations = 0
        self.num_checkpoints = 0
        self._own_prefix = f"[Callback]{own_key}."
        self._checkpoint_keys = frozenset(checkpoint_keys)
        self._actions: dict[str, ActionContext] = {}
        self._training_ns: list[int] = []
        self._validation_ns: list[int] = []
        self.ns = self._training_ns
        self.between_epochs = self._new_slot(Meaning(Part.EPOCH_START))
        self.loop = self._new_slot(Meaning(Part.OTHER))
        self.logging = self._new_slot(Meaning(Part.CALLBACKS, LOGGING, "after the batch"))
        self.manual_backward = self._new_slot(Meaning(Part.BACKWARD))
        self.capture = ActionContext(self, self._new_slot(Meaning(Part.CAPTURE)))
        self.edge = ActionContext(self, self._new_slot(Meaning(Part.EDGE)))
        self.stack: list[int] = []
        self.current = self.between_epochs
        self.iterator_since_ns: int | None = None
        self.last_ns = perf_counter_ns()

    def profile(self, action_name: str) -> ActionContext | ForwardedContext:
        """A context for ``action_name``, made once for each name."""
        action = self._actions.get(action_name) or self._new_action(action_name)
        return ForwardedContext(action, self.inner.profile(action_name)) if self._forwards else action

    def start(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` begins."""
        if self._forwards:
            self.inner.start(action_name)
        (self._actions.get(action_name) or self._new_action(action_name)).__enter__()

    def stop(self, action_name: str) -> None:
        """Lightning announces that ``action_name`` has ended."""
        (self._actions.get(action_name) or self._new_action(action_name)).__exit__(None, None, None)
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
        self.ns[self.current] += now_ns - self.last_ns
        self.last_ns = now_ns
        return now_ns

    def enter_validation(self) -> None:
        """From here on all is validation, and so is the time since training's last action: the loop set it up."""
        self.num_validations += self.ns is self._training_ns
        self.ns = self._validation_ns
        self._has_validated = True

    def leave_validation(self) -> None:
        """Back to training."""
        if self.ns is self._validation_ns:
            self.flush()
            self.ns = self._training_ns

    @property
    def is_training(self) -> bool:
        """False while validation runs."""
        return self.ns is self._training_ns

    def end_step(self) -> StepParts:
        """End the running step here and begin the next one."""
        self.leave_validation()
        self.flush()
        phases_ns = [0] * len(PHASES)
        hooks_ns: dict[int, int] = {}
        outside_ns: dict[Part, int] = {}
        ns, meanings, phase_of = self._training_ns, self.meanings, self._phase_of
        for slot, spent_ns in enumerate(ns):
            if spent_ns:
                ns[slot] = 0
                phase = phase_of[slot]
                if phase is None:
                    part = meanings[slot].part
                    outside_ns[part] = outside_ns.get(part, 0) + spent_ns
                else:
                    phases_ns[phase] += spent_ns
                    if meanings[slot].hook is not None:
                        hooks_ns[slot] = spent_ns
        if self._has_validated:
            self._take_validation(outside_ns)
        return StepParts(phases_ns, hooks_ns, outside_ns)

    def _take_validation(self, outside_ns: dict[Part, int]) -> None:
        self._has_validated = False
        for slot, spent_ns in enumerate(self._validation_ns):
            self._validation_ns[slot] = 0
            part = Part.CHECKPOINT if self.meanings[slot].part is Part.CHECKPOINT else Part.VALIDATION
            outside_ns[part] = outside_ns.get(part, 0) + spent_ns

    def _new_slot(self, meaning: Meaning) -> int:
        self.meanings.append(meaning)
        self._phase_of.append(PHASE_OF[meaning.part])
        self._training_ns.append(0)
        self._validation_ns.append(0)
        return len(self.meanings) - 1

    def _new_action(self, name: str) -> ActionContext:
        meaning = actions.meaning(name, self._checkpoint_keys)
        slot = self._new_slot(meaning)
        if name.startswith(self._own_prefix):
            self.own_slots.add(slot)
        kind = context_kind(name, meaning, on_device=self.device is not None)
        return self._actions.setdefault(name, kind(self, slot))


def _itself(profiler: Any) -> Any:
    return profiler
