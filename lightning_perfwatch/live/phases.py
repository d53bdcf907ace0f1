"""Splits the wall clock of a fit by listening through Lightning's Profiler interface.

Owns the listener and exclusive times. Reads clocks; knows no schedule, no rule and no report.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.measurements import PHASES

LOGGING = "Lightning's logging"


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
    """

    def __init__(
        self,
        inner: Any,
        own_key: str,
        checkpoint_keys: Collection[str] = (),
        device: DeviceMarks | None = None,
    ) -> None:
        self.device = device
        self._put_before(inner)
        self.fetch_observer: FetchObserver | None = None
        self.meanings: list[Meaning] = []
        self.own_slots: set[int] = set()
        self.epoch_starts_ns: list[tuple[int, int]] = []
        self._own_prefix = f"[Callback]{own_key}."
        self._checkpoint_keys = frozenset(checkpoint_keys)
        self._actions: dict[str, _Action] = {}
        self._training_ns: list[int] = []
        self._validation_ns: list[int] = []
        self.ns = self._training_ns
        self.between_epochs = self._new_slot(Meaning(Part.EPOCH_START))
        self.loop = self._new_slot(Meaning(Part.OTHER))
        self.logging = self._new_slot(Meaning(Part.CALLBACKS, LOGGING, "after the batch"))
        self.manual_backward = self._new_slot(Meaning(Part.BACKWARD))
        self.capture = _Action(self, self._new_slot(Meaning(Part.CAPTURE)))
        self.edge = _Action(self, self._new_slot(Meaning(Part.EDGE)))
        self.stack: list[int] = []
        self.current = self.between_epochs
        self.iterator_since_ns: int | None = None
        self.last_ns = perf_counter_ns()

    def profile(self, action_name: str) -> _Action | _Forwarded:
        """A context for ``action_name``, made once for each name."""
        action = self._actions.get(action_name) or self._new_action(action_name)
        return _Forwarded(action, self.inner.profile(action_name)) if self._forwards else action

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
        self.ns = self._validation_ns

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
        ns, meanings = self._training_ns, self.meanings
        for slot, spent_ns in enumerate(ns):
            if spent_ns:
                ns[slot] = 0
                part, _, hook = meanings[slot]
                phase = _PHASE_OF[part]
                if phase is None:
                    outside_ns[part] = outside_ns.get(part, 0) + spent_ns
                else:
                    phases_ns[phase] += spent_ns
                    if hook is not None:
                        hooks_ns[slot] = spent_ns
        for slot, spent_ns in enumerate(self._validation_ns):
            if spent_ns:
                self._validation_ns[slot] = 0
                part = Part.CHECKPOINT if meanings[slot].part is Part.CHECKPOINT else Part.VALIDATION
                outside_ns[part] = outside_ns.get(part, 0) + spent_ns
        return StepParts(phases_ns, hooks_ns, outside_ns)

    def _new_slot(self, meaning: Meaning) -> int:
        self.meanings.append(meaning)
        self._training_ns.append(0)
        self._validation_ns.append(0)
        return len(self.meanings) - 1

    def _new_action(self, name: str) -> _Action:
        meaning = actions.meaning(name, self._checkpoint_keys)
        slot = self._new_slot(meaning)
        if name.startswith(self._own_prefix):
            self.own_slots.add(slot)
        kind = _action_kind(name, meaning, on_device=self.device is not None)
        return self._actions.setdefault(name, kind(self, slot))


_PHASE_OF = {part: part.phase for part in Part}


class _Action:
    """The context of one action: made once and entered at each occurrence, so it may hold no state of its own."""

    __slots__ = ("slot", "timer")

    def __init__(self, timer: PhaseTimer, slot: int) -> None:
        self.timer = timer
        self.slot = slot

    def __enter__(self) -> None:
        timer = self.timer
        now_ns = perf_counter_ns()
        timer.ns[timer.current] += now_ns - timer.last_ns
        timer.last_ns = now_ns
        timer.stack.append(timer.current)
        timer.current = self.slot

    def __exit__(self, *exception: object) -> None:
        timer = self.timer
        now_ns = perf_counter_ns()
        timer.ns[timer.current] += now_ns - timer.last_ns
        timer.last_ns = now_ns
        if timer.stack:  # empty when the listener came in after the start of this action
            timer.current = timer.stack.pop()


class _Forwarded:
    """An action that the user's own profiler hears of too."""

    __slots__ = ("_action", "_inner")

    def __init__(self, action: _Action, inner: Any) -> None:
        self._action = action
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._action.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._action.__exit__(*exception)
        self._inner.__exit__(*exception)


class _Marked(_Action):
    """An action that leaves a mark on the device's clock where it begins and where it ends."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self._mark()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        self._mark()

    def _mark(self) -> None:
        timer = self.timer
        phase = _PHASE_OF[timer.meanings[timer.current].part]
        if timer.device is not None and timer.is_training and phase is not None:
            timer.device.mark(phase)


class _Fetch(_Marked):
    """The training loop asks for a batch: validation is over, and so is the start of the epoch."""

    __slots__ = ()

    def __enter__(self) -> None:
        timer = self.timer
        timer.leave_validation()
        now_ns = timer.flush()
        if timer.iterator_since_ns is not None:
            timer.epoch_starts_ns.append((now_ns - timer.iterator_since_ns, 0))
        if timer.current in (timer.between_epochs, timer.logging):  # else a training step fetches its own batch
            timer.current = timer.loop
        super().__enter__()
        if timer.fetch_observer is not None:
            timer.fetch_observer.fetch_begins()

    def __exit__(self, *exception: object) -> None:
        timer = self.timer
        if timer.fetch_observer is not None:
            timer.fetch_observer.fetch_ends()
        begun_ns = timer.last_ns
        super().__exit__()
        if timer.iterator_since_ns is not None:
            timer.epoch_starts_ns[-1] = (timer.epoch_starts_ns[-1][0], timer.last_ns - begun_ns)
            timer.iterator_since_ns = None


class _Epoch(_Action):
    """Until its first fetch an epoch makes the loader's iterator and starts its workers."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self.timer.current = self.timer.between_epochs
        self.timer.iterator_since_ns = self.timer.last_ns


class _AfterTraining(_Action):
    """A hook that only runs when validation is over."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.timer.leave_validation()
        super().__enter__()


class _Validation(_Action):
    """Any action of validation; the first one turns everything into validation until training goes on."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.timer.enter_validation()
        super().__enter__()


class _ModuleBatchEnd(_Action):
    """The last hook of a step: what follows until the next fetch is Lightning's logging."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        self.timer.current = self.timer.logging


class _BeforeBackward(_Action):
    """Manual optimisation announces a backward pass only by the hooks around it."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        timer = self.timer
        if timer.meanings[timer.current].part is not Part.BACKWARD:
            timer.stack.append(timer.current)
            timer.current = timer.manual_backward
            if timer.device is not None and timer.is_training:
                timer.device.mark(_BACKWARD)


class _AfterBackward(_Action):
    """The last hook after a backward pass."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        timer = self.timer
        if timer.current == timer.manual_backward and timer.stack:
            timer.current = timer.stack.pop()
            if timer.device is not None and timer.is_training:
                timer.device.mark(_FORWARD)


_BACKWARD = PHASES.index("backward")
_FORWARD = PHASES.index("forward")


def _action_kind(name: str, meaning: Meaning, *, on_device: bool) -> type[_Action]:
    hook = name.rpartition(".")[2]
    by_module = name.startswith("[LightningModule]")
    special: type[_Action] | None = None
    if name == actions.RUN_EPOCH:
        special = _Epoch
    elif meaning.part is Part.DATA_WAIT:
        special = _Fetch
    elif meaning.part is Part.VALIDATION:
        special = _Validation
    elif hook in ("on_train_epoch_end", "on_train_end"):
        special = _AfterTraining
    elif by_module:
        special = {
            "on_train_batch_end": _ModuleBatchEnd,
            "on_before_backward": _BeforeBackward,
            "on_after_backward": _AfterBackward,
        }.get(hook)
    return special or (_Marked if on_device and hook in actions.COARSE else _Action)
