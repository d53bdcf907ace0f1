"""What Lightning's profiler action names mean: the one place that knows them.

Owns the mapping from an action name to a part of the step or to what lies outside of it. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any, NamedTuple

from lightning_perfwatch.measurements import PHASES


class Part(Enum):
    """Where the time of an action belongs: the step's phases first, then what is no part of a steady step.

    ENCLOSING is the part of whatever the action lies in: the user may announce actions to the profiler as well.
    CAPTURE is the start and stop of PerfWatch's own profiler, EDGE its wait for the device at an interval's edge.
    """

    DATA_WAIT = "data_wait"
    TRANSFER = "transfer"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    CALLBACKS = "callbacks"
    OTHER = "other"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    EPOCH_START = "epoch_start"
    ENCLOSING = "enclosing"
    CAPTURE = "capture"
    EDGE = "edge"

    @property
    def phase(self) -> int | None:
        """Index in :data:`~lightning_perfwatch.measurements.PHASES`; None for what lies outside the step."""
        return PHASES.index(self.value) if self.value in PHASES else None


class Meaning(NamedTuple):
    """``hook`` and ``owner`` are set for the hook of a callback, module, data module or strategy."""

    part: Part
    owner: str | None = None
    hook: str | None = None


FETCH = "train_dataloader_next"
RUN_EPOCH = "run_training_epoch"
SAVE_CHECKPOINT = "save_checkpoint"
COARSE = frozenset(("batch_to_device", "training_step", "backward", "optimizer_step"))
"""Hooks whose start and stop are worth an event on the device's clock."""

_TRANSFER = frozenset(
    ("batch_to_device", "transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer")
)
_OPTIMIZER = frozenset(("optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "lr_scheduler_step"))
_BARE = {
    RUN_EPOCH: Part.OTHER,
    "run_training_batch": Part.OTHER,
    "optimizer_step": Part.OPTIMIZER,
    SAVE_CHECKPOINT: Part.CHECKPOINT,
}
"""Lightning's names without an owner."""
_EPOCH = frozenset(("on_train_epoch_start", "on_train_epoch_end"))
_VALIDATION_PREFIXES = ("on_validation_", "validation_", "on_val_", "val_")


def meaning(action: str, checkpoint_keys: Collection[str] = ()) -> Meaning:
    """What the time between start and stop of ``action`` is spent on.

    ``checkpoint_keys`` are the state keys of the callbacks that write checkpoints. Unknown names are hooks if they
    look like ``[Owner]Name.hook``; else they are the user's own and belong to what they lie in.
    """
    if not action.startswith("["):
        return Meaning(_BARE.get(action, Part.ENCLOSING))
    owner, _, hook = action.rpartition(".")  # a callback's state key may hold dots and any other character
    kind, _, name = owner[1:].partition("]")
    if hook == FETCH:
        return Meaning(Part.DATA_WAIT)
    if hook == "on_save_checkpoint" or (kind == "Callback" and name in checkpoint_keys):
        return Meaning(Part.CHECKPOINT)
    if hook.startswith(_VALIDATION_PREFIXES):
        return Meaning(Part.VALIDATION)
    if hook in _TRANSFER:
        return Meaning(Part.TRANSFER)
    if hook in _OPTIMIZER:
        return Meaning(Part.OPTIMIZER)
    if hook == "training_step":
        return Meaning(Part.FORWARD)
    if hook == "backward":
        return Meaning(Part.BACKWARD)
    if not kind:
        return Meaning(Part.ENCLOSING)
    part = Part.EPOCH_START if hook in _EPOCH else Part.CALLBACKS
    return Meaning(part, _readable(kind, name), hook)


def _readable(kind: str, name: str) -> str:
    """``ModelCheckpoint`` rather than ``ModelCheckpoint{'monitor': None, ...}``."""
    short = name.partition("{")[0]
    return short if kind == "Callback" else f"{short} ({kind})"


def checkpoint_keys(callbacks: Sequence[Any]) -> list[str]:
    """State keys of the callbacks that write checkpoints, in either of Lightning's namespaces."""
    return [
        callback.state_key
        for callback in callbacks
        if any(kind.__name__ == "Checkpoint" for kind in type(callback).__mro__)
    ]
