"""Which hooks need not be timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import SingleDeviceStrategy

from lightning_perfwatch.live.silent_hooks import silent_actions


class Model(LightningModule):
    def on_before_zero_grad(self, optimizer: Any) -> None:
        """Does something."""


class Idle(Callback):
    pass


class Busy(Callback):
    def on_train_batch_end(self, *arguments: Any) -> None:
        """Does something."""


class Twin(Callback):
    @property
    def state_key(self) -> str:
        return "Idle"

    def on_after_backward(self, *arguments: Any) -> None:
        """Does something."""


def silent(*callbacks: Callback, module: LightningModule | None = None) -> frozenset[str]:
    trainer = SimpleNamespace(callbacks=callbacks, strategy=SingleDeviceStrategy(), datamodule=None)
    return silent_actions(trainer, module or Model())


def test_a_hook_that_nobody_overrides_is_silent_and_one_that_is_overridden_is_heard() -> None:
    names = silent(Idle(), Busy())

    assert "[Callback]Idle.on_train_batch_end" in names
    assert "[Callback]Busy.on_train_batch_start" in names
    assert "[Callback]Busy.on_train_batch_end" not in names
    assert "[LightningModule]Model.on_before_optimizer_step" in names
    assert "[LightningModule]Model.on_before_zero_grad" not in names
    assert "[Strategy]SingleDeviceStrategy.on_train_batch_start" in names
    assert not any(name.endswith((".training_step", ".backward", ".optimizer_step")) for name in names)


def test_callbacks_with_one_name_are_heard_if_either_does_something() -> None:
    names = silent(Idle(), Twin())

    assert "[Callback]Idle.on_after_backward" not in names
    assert "[Callback]Idle.on_before_backward" in names


def test_a_hook_that_was_set_on_the_object_is_heard() -> None:
    callback = Idle()
    callback.on_before_backward = lambda *arguments: None  # type: ignore[method-assign]

    assert "[Callback]Idle.on_before_backward" not in silent(callback)


def test_the_hooks_at_which_phases_begin_are_heard_though_they_do_nothing() -> None:
    automatic, manual = Model(), Model()
    manual.automatic_optimization = False

    for hook, is_silent in (("on_train_batch_end", False), ("on_before_backward", True), ("on_after_backward", True)):
        name = f"[LightningModule]Model.{hook}"
        assert (name in silent(module=automatic)) is is_silent
        assert name not in silent(module=manual)
