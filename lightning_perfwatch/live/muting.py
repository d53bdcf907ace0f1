"""Keeps Lightning from calling hooks of the callback in which nothing happens: each such call costs 1 to 2 µs.

Owns what stands in for these hooks on the callback as long as a fit is watched. Calls no hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning_perfwatch.live.silent_hooks import is_original

STEP_START = "on_train_batch_start"
_EMPTY = (
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_validation_batch_start",
    "on_validation_batch_end",
)
MUTED = frozenset((*_EMPTY, STEP_START))


class Muting:
    """From here to :meth:`end` the empty hooks of ``callback`` are not called, unless somebody has overridden them.

    Lightning asks each callback for a hook and calls what is callable: None on the callback itself hides the hook of
    its class. A callback that is not among the Trainer's own is left alone, since another one, which passes the hooks
    on to it, might not ask.
    """

    def __init__(self, trainer: Any, callback: Any) -> None:
        self._callback = callback
        self._muted: set[str] = set()
        is_known = any(one is callback for one in trainer.callbacks)
        self._may_mute_starts = is_known and _is_own(callback, STEP_START)
        if is_known:
            for hook in _EMPTY:
                if is_original(callback, hook):
                    self._mute(hook)

    def hear_starts(self, is_wanted: bool) -> None:
        """Whether the start of the steps that follow is wanted."""
        if self._may_mute_starts:
            if is_wanted:
                self._unmute(STEP_START)
            else:
                self._mute(STEP_START)

    def end(self) -> None:
        """Give the hooks back; idempotent."""
        self._may_mute_starts = False
        for hook in tuple(self._muted):
            self._unmute(hook)

    def _mute(self, hook: str) -> None:
        if hook not in vars(self._callback):
            vars(self._callback)[hook] = None
            self._muted.add(hook)

    def _unmute(self, hook: str) -> None:
        if hook in self._muted:
            self._muted.remove(hook)
            if vars(self._callback).get(hook, self) is None:
                del vars(self._callback)[hook]


def unmuted(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a copy of a callback with these attributes takes along: no muted hook."""
    return {name: value for name, value in state.items() if name not in MUTED or value is not None}


def _is_own(callback: Any, hook: str) -> bool:
    """Whether ``hook`` is this package's, and no subclass's of a user."""
    defined_in = str(getattr(type(callback), hook).__module__)
    return defined_in.partition(".")[0] == __name__.partition(".")[0]
