"""Which of the actions that Lightning announces in every step need not be timed: above all hooks that nobody overrides.

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

_WITHIN_THEIR_PHASE = frozenset(("transfer_batch_to_device", "on_after_batch_transfer", "configure_gradient_clipping"))
_AROUND_BACKWARD = frozenset(("on_before_backward", "on_after_backward"))
_ORIGINALS = ("callbacks.callback", "core.hooks", "strategies.strategy")
_LIGHTNING = ("lightning.pytorch.", "pytorch_lightning.")


def silent_actions(trainer: Any, module: Any) -> frozenset[str]:
    """The profiler's action names whose time need not be told apart in a fit of ``module``.

    These are the hooks that do nothing, and those of a phase that always lie within an action of the same phase. The
    module's hooks around a batch's end and around a manual backward pass are heard in any case: phases begin there.
    """
    owners = [(f"[Callback]{callback.state_key}", callback) for callback in trainer.callbacks]
    owners.append((f"[LightningModule]{type(module).__name__}", module))
    owners.append((f"[Strategy]{type(trainer.strategy).__name__}", trainer.strategy))
    silent, heard = _split(owners)
    kinds = ["LightningModule"] if trainer.datamodule is None else ["LightningModule", "LightningDataModule"]
    names = {"LightningModule": type(module).__name__, "LightningDataModule": type(trainer.datamodule).__name__}
    silent |= {f"[{kind}]{names[kind]}.{hook}" for kind in kinds for hook in _WITHIN_THEIR_PHASE}
    begin = {"on_train_batch_end"} if module.automatic_optimization else {"on_train_batch_end", *_AROUND_BACKWARD}
    heard |= {f"[LightningModule]{type(module).__name__}.{hook}" for hook in begin}
    return frozenset(silent - heard)  # callbacks may share a name


def _split(owners: Iterable[tuple[str, Any]]) -> tuple[set[str], set[str]]:
    silent: set[str] = set()
    heard: set[str] = set()
    for name, owner in owners:
        for hook in _EMPTY:
            (silent if is_original(owner, hook) else heard).add(f"{name}.{hook}")
    return silent, heard


def is_original(owner: Any, hook: str) -> bool:
    """Whether ``hook`` of ``owner`` is Lightning's own, so that an empty one is still empty."""
    if hook in vars(owner):
        return False
    defined_in = str(getattr(getattr(type(owner), hook, None), "__module__", ""))
    return defined_in.startswith(_LIGHTNING) and defined_in.endswith(_ORIGINALS)
