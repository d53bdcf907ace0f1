"""Which of the hooks that Lightning announces in every step do nothing, since nobody has overridden them.

Looks at where a hook is defined; runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_EMPTY = frozenset(
    (
        "on_train_batch_start", "on_train_batch_end", "on_before_zero_grad", "on_before_backward", "on_after_backward",
        "on_before_optimizer_step", "on_before_batch_transfer", "on_after_batch_transfer",
    )
)  # fmt: skip
"""Hooks of a step whose originals in Lightning 2.6 hold no statement but ``pass`` or ``return batch``."""

_ORIGINALS = ("callbacks.callback", "core.hooks", "strategies.strategy")
_LIGHTNING = ("lightning.pytorch.", "pytorch_lightning.")


def silent_actions(trainer: Any, module: Any) -> frozenset[str]:
    """The profiler's action names of all hooks that do nothing in a fit of ``module``."""
    owners = [(f"[Callback]{callback.state_key}", callback) for callback in trainer.callbacks]
    owners.append((f"[LightningModule]{type(module).__name__}", module))
    owners.append((f"[Strategy]{type(trainer.strategy).__name__}", trainer.strategy))
    silent, heard = _split(owners)
    return frozenset(silent - heard)  # callbacks may share a name


def _split(owners: Iterable[tuple[str, Any]]) -> tuple[set[str], set[str]]:
    silent: set[str] = set()
    heard: set[str] = set()
    for name, owner in owners:
        for hook in _EMPTY:
            (silent if _is_original(owner, hook) else heard).add(f"{name}.{hook}")
    return silent, heard


def _is_original(owner: Any, hook: str) -> bool:
    if hook in vars(owner):
        return False
    defined_in = str(getattr(getattr(type(owner), hook, None), "__module__", ""))
    return defined_in.startswith(_LIGHTNING) and defined_in.endswith(_ORIGINALS)
