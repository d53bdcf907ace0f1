"""Names the phases of a step in the trace, as long as one is recorded.

Owns the labels and which of Lightning's actions get one. Times nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import record_function

LABELS = {
    "batch_to_device": "transfer",
    "training_step": "forward",
    "backward": "backward",
    "optimizer_step": "optimizer",
}
"""The label of an action by its hook; torch itself labels the wait for data."""

_OWNERS = ("[Strategy]", "[LightningModule]")


class LabelledContext:
    """The context of one occurrence of an action, within which the trace has its label."""

    __slots__ = ("_action", "_label")

    def __init__(self, action: Any, label: str) -> None:
        self._action = action
        self._label: Any = record_function(label)

    def __enter__(self) -> None:
        self._action.__enter__()
        self._label.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._label.__exit__(kind, error, trace)
        self._action.__exit__(kind, error, trace)


def labelled(profile: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same as ``profile``, with labels around the actions that are phases."""

    def announced(action_name: str) -> Any:
        action = profile(action_name)
        label = LABELS.get(action_name.rpartition(".")[2]) if action_name.startswith(_OWNERS) else None
        return action if label is None else LabelledContext(action, label)

    return announced
