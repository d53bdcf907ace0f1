"""The contexts that Lightning enters for its actions: one kind for each way in which an action moves the clock.

Owns what happens at the start and stop of an action. The times themselves belong to the
:class:`~lightning_perfwatch.live.phases.PhaseTimer` that a context is made for.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.measurements import PHASES

if TYPE_CHECKING:
    from lightning_perfwatch.live.phases import PhaseTimer

PHASE_OF = {part: part.phase for part in Part}


class ActionContext:
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


class ForwardedContext:
    """An action that the user's own profiler hears of too."""

    __slots__ = ("_action", "_inner")

    def __init__(self, action: ActionContext, inner: Any) -> None:
        self._action = action
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._action.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._action.__exit__(*exception)
        self._inner.__exit__(*exception)


class _Marked(ActionContext):
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
        phase = PHASE_OF[timer.meanings[timer.current].part]
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
            timer.num_epochs += 1
            timer.epoch_starts_ns.append((now_ns - timer.iterator_since_ns, 0))
        if timer.current in (timer.between_epochs, timer.logging):  # else a training step fetches its own batch
            timer.current = timer.loop
        super().__enter__()
        if timer.iterator_since_ns is not None and timer.workers_start:
            timer.current = timer.between_epochs
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


class _Epoch(ActionContext):
    """Until its first fetch an epoch makes the loader's iterator and starts its workers."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self.timer.current = self.timer.between_epochs
        self.timer.iterator_since_ns = self.timer.last_ns


class _Transparent(ActionContext):
    """An action that changes nothing: its time belongs to what it lies in."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self.timer.current = self.timer.stack[-1]


class _AfterTraining(ActionContext):
    """A hook that only runs when validation is over."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.timer.leave_validation()
        super().__enter__()


class _Validation(ActionContext):
    """Any action of validation; the first one turns everything into validation until training goes on."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.timer.enter_validation()
        super().__enter__()


class _Saving(ActionContext):
    """A checkpoint is written."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        self.timer.num_checkpoints += 1


class _ModuleBatchEnd(ActionContext):
    """The last hook of a step: what follows until the next fetch is Lightning's logging."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        self.timer.current = self.timer.logging


class _BeforeBackward(ActionContext):
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


class _AfterBackward(ActionContext):
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


def context_kind(name: str, meaning: Meaning, *, on_device: bool) -> type[ActionContext]:
    """The kind of context that an action with this name and meaning needs; some only leave marks ``on_device``."""
    hook = name.rpartition(".")[2]
    by_module = name.startswith("[LightningModule]")
    special: type[ActionContext] | None = None
    if name == actions.RUN_EPOCH:
        special = _Epoch
    elif name == actions.SAVE_CHECKPOINT:
        special = _Saving
    elif meaning.part is Part.DATA_WAIT:
        special = _Fetch
    elif meaning.part is Part.ENCLOSING:
        special = _Transparent
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
    return special or (_Marked if on_device and hook in actions.COARSE else ActionContext)
