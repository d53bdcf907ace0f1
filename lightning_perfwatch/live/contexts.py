"""The contexts that Lightning enters for its actions: one kind for each way in which an action moves the clock.

Owns what happens at the start and stop of an action. The times themselves belong to the
:class:`~lightning_perfwatch.live.phases.PhaseTimer` that a context is made for.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from lightning_perfwatch.live import actions
from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.run_marks import CHECKPOINT
from lightning_perfwatch.measurements import PHASES

if TYPE_CHECKING:
    from lightning_perfwatch.live.phases import PhaseTimer

PHASE_OF = {part: part.phase for part in Part}


class ActionContext:
    """The context of one action: made once and entered at each occurrence, so it may hold no state of its own.

    It is entered some twenty times a step, and a bare Trainer's own contexts cost 1.0 µs each. What it works on is at
    hand in slots: 0.5 µs.
    """

    __slots__ = ("ns", "slot", "stack", "timer", "watch")

    def __init__(self, timer: PhaseTimer, slot: int) -> None:
        self.timer = timer
        self.slot = slot
        self.watch = timer.watch
        self.ns = timer.watch.ns
        self.stack = timer.watch.stack

    def __enter__(self) -> None:
        now_ns = perf_counter_ns()
        watch = self.watch
        stack = self.stack
        self.ns[stack[-1]] += now_ns - watch.last_ns
        watch.last_ns = now_ns
        stack.append(self.slot)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        now_ns = perf_counter_ns()
        watch = self.watch
        stack = self.stack
        slot = stack.pop()
        self.ns[slot] += now_ns - watch.last_ns
        watch.last_ns = now_ns
        if not stack:  # the listener came in after the start of this action
            stack.append(slot)


class SilentContext:
    """An action in which nothing happens, so that its time need not be told from what it lies in: 0.2 µs."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


OwnContext = ActionContext | SilentContext


class ForwardedContext:
    """An action that the user's own profiler hears of too."""

    __slots__ = ("_action", "_inner")

    def __init__(self, action: OwnContext, inner: Any) -> None:
        self._action = action
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._action.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._action.__exit__(kind, error, trace)
        self._inner.__exit__(kind, error, trace)


class _Marked(ActionContext):
    """An action that leaves a mark on the device's clock where it begins and where it ends."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self._mark()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        super().__exit__(kind, error, trace)
        self._mark()

    def _mark(self) -> None:
        timer = self.timer
        phase = PHASE_OF[timer.meanings[self.stack[-1]].part]
        if timer.device is not None and timer.is_training and phase is not None:
            timer.device.mark(phase)


class _Fetch(_Marked):
    """The training loop asks for a batch: validation is over, and so is the start of the epoch."""

    __slots__ = ()

    def __enter__(self) -> None:
        timer = self.timer
        timer.leave_validation()
        if timer.iterator_since_ns is not None:
            timer.num_epochs += 1
            timer.epoch_starts_ns.append((self.watch.lap() - timer.iterator_since_ns, 0))
            timer.marks.first_step_begins(self.watch.last_ns)
        if self.stack[-1] in (timer.between_epochs, timer.logging):  # else a training step fetches its own batch
            self.watch.lap()
            self.stack[-1] = timer.loop
        super().__enter__()
        if timer.iterator_since_ns is not None and timer.workers_start:
            self.stack[-1] = timer.between_epochs
        if timer.fetch_observer is not None:
            timer.fetch_observer.fetch_begins()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        timer = self.timer
        if timer.fetch_observer is not None:
            timer.fetch_observer.fetch_ends()
        begun_ns = self.watch.last_ns
        super().__exit__(kind, error, trace)
        if timer.iterator_since_ns is not None:
            timer.epoch_starts_ns[-1] = (timer.epoch_starts_ns[-1][0], self.watch.last_ns - begun_ns)
            timer.iterator_since_ns = None


class _Epoch(ActionContext):
    """Until its first fetch an epoch makes the loader's iterator and starts its workers."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self.stack[-1] = self.timer.between_epochs
        self.timer.iterator_since_ns = self.watch.last_ns


class TransparentContext(ActionContext):
    """An action that changes nothing: its time belongs to what it lies in."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()
        self.stack[-1] = self.stack[-2]


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

    def __enter__(self) -> None:
        super().__enter__()
        self.timer.marks.begin(CHECKPOINT, self.watch.num_ended, self.watch.last_ns)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        super().__exit__(kind, error, trace)
        self.timer.marks.end(CHECKPOINT, self.watch.last_ns)
        self.timer.num_checkpoints += 1


class _ModuleBatchEnd(ActionContext):
    """The last hook of a step: what follows until the next fetch is Lightning's logging."""

    __slots__ = ()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        super().__exit__(kind, error, trace)
        self.stack[-1] = self.timer.logging


class _BeforeBackward(ActionContext):
    """Manual optimisation announces a backward pass only by the hooks around it."""

    __slots__ = ()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        super().__exit__(kind, error, trace)
        timer = self.timer
        if timer.meanings[self.stack[-1]].part is not Part.BACKWARD:
            self.stack.append(timer.manual_backward)
            if timer.device is not None and timer.is_training:
                timer.device.mark(_BACKWARD)


class _AfterBackward(ActionContext):
    """The last hook after a backward pass."""

    __slots__ = ()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        super().__exit__(kind, error, trace)
        timer = self.timer
        if self.stack[-1] == timer.manual_backward:
            self.stack.pop()
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
        special = TransparentContext
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
