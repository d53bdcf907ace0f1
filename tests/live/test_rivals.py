"""Who else profiles the run, asked before the first window."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.profilers import AdvancedProfiler, PassThroughProfiler, PyTorchProfiler, SimpleProfiler

from lightning_perfwatch.live.rivals import another_profiler, profiler_on_thread


class Watch(Callback): ...


class WatchOfMine(Watch): ...


class Tracer(Callback):
    def __init__(self) -> None:
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


class MyProfiler(PyTorchProfiler): ...


OWN = Watch()


class Model(LightningModule): ...


class ProfiledModel(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.tracer = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def found(*callbacks: Any, profiler: Any = None, module: Any = None) -> str | None:
    trainer = SimpleNamespace(
        profiler=profiler or PassThroughProfiler(), callbacks=callbacks, lightning_module=module or Model()
    )
    return another_profiler(trainer, OWN)


@pytest.mark.parametrize("profiler", [PassThroughProfiler(), SimpleProfiler(), AdvancedProfiler()])
def test_profilers_that_do_not_use_torchs_are_none(profiler: Any) -> None:
    assert found(OWN, ModelCheckpoint(), WatchOfMine(), profiler=profiler) is None


@pytest.mark.parametrize("kind", [PyTorchProfiler, MyProfiler])
def test_lightnings_profiler_of_torch_is_one(kind: Any) -> None:
    assert found(OWN, profiler=kind()) == "the Trainer's PyTorchProfiler"


def test_of_two_of_its_kind_the_first_one_records() -> None:
    assert found(OWN, Watch()) is None
    assert found(Watch(), OWN) == "another PerfWatch"


@pytest.mark.parametrize("order", [(Tracer(), OWN), (OWN, Tracer())])
def test_a_callback_that_holds_a_profiler_is_one_wherever_it_stands(order: tuple[Any, ...]) -> None:
    assert found(*order) == "a torch.profiler of Tracer"


def test_a_module_that_holds_a_profiler_is_one() -> None:
    assert found(OWN, module=ProfiledModel()) == "a torch.profiler of ProfiledModel"


def test_a_profiler_around_the_fit_is_one_while_it_runs() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert found(OWN) == profiler_on_thread() == "a torch.profiler that is running already"

    assert found(OWN) is profiler_on_thread() is None
