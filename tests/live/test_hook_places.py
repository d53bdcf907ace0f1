from __future__ import annotations

from types import SimpleNamespace

from lightning.pytorch import Callback, LightningModule

from lightning_perfwatch.live.hook_places import located
from lightning_perfwatch.measurements import HookTime


class Meter(Callback):
    def on_train_batch_end(self, *args: object) -> None: ...


class Model(LightningModule):
    def on_train_batch_start(self, *args: object) -> None: ...


TRAINER = SimpleNamespace(callbacks=[Meter()])


def hook_time(name: str, hook: str) -> HookTime:
    return HookTime(name, hook, s_per_step=0.1, max_s=0.2)


def test_what_was_not_measured_has_no_place() -> None:
    assert located(None, TRAINER, Model()) is None


def test_a_callbacks_hook_is_where_its_class_defines_it() -> None:
    (time,) = located([hook_time("Meter", "on_train_batch_end")], TRAINER, Model()) or ()
    assert (time.file, time.line) == (__file__, Meter.on_train_batch_end.__code__.co_firstlineno)


def test_a_modules_hook_is_found_too() -> None:
    (time,) = located([hook_time("Model (LightningModule)", "on_train_batch_start")], TRAINER, Model()) or ()
    assert (time.file, time.line) == (__file__, Model.on_train_batch_start.__code__.co_firstlineno)


def test_what_is_no_hook_of_the_users_keeps_its_time_and_has_no_place() -> None:
    logging = hook_time("Lightning's logging", "after the batch")
    assert located([logging], TRAINER, Model()) == (logging,)
