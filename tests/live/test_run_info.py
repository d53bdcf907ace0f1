from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer

from lightning_perfwatch.live import run_info
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.run_info import describe_run
from lightning_perfwatch.processes import num_usable_cpus

CPU = Device(torch.device("cpu"))
pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Model(LightningModule):
    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def stand_in(**changes: Any) -> Any:
    """What is asked of a Trainer."""
    settings = {
        "num_devices": 1,
        "world_size": 1,
        "global_rank": 0,
        "optimizers": [],
        "precision": "bf16-mixed",
        "strategy": object(),
        "accumulate_grad_batches": 4,
    }
    return SimpleNamespace(**{**settings, **changes})


def test_a_real_trainers_settings(tmp_path: Path) -> None:
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, accumulate_grad_batches=2)
    model = Model(torch.nn.Linear(3, 2))

    info = describe_run(trainer, model, CPU)

    assert (info.device_type, info.device_name, info.device_is_asynchronous) == ("cpu", "cpu", False)
    assert (info.world_size, info.rank, info.num_cpus) == (1, 0, num_usable_cpus())
    assert (info.model, info.num_parameters) == ("Model", 8)
    assert (info.precision, info.strategy) == ("32-true", "SingleDeviceStrategy")
    assert (info.accumulate_grad_batches, info.compiled) == (2, False)
    assert info.lightning_version == lightning.__version__
    assert info.torch_version == str(torch.__version__)
    assert info.python_version == platform.python_version()


def test_optimizers_are_named_with_the_way_they_were_told_to_work() -> None:
    weights = [torch.nn.Parameter(torch.ones(1))]
    optimizers = [
        torch.optim.AdamW(weights),
        torch.optim.AdamW(weights, fused=True),
        torch.optim.SGD(weights, 0.1, foreach=True),
        torch.optim.Adam(weights, foreach=False),
        torch.optim.LBFGS(weights),
    ]

    info = describe_run(stand_in(optimizers=optimizers), Model(), CPU)

    assert info.optimizers == ("AdamW", "AdamW(fused)", "SGD(foreach)", "Adam", "LBFGS")


def test_parameters_that_do_not_exist_yet_make_their_number_unknown() -> None:
    model = Model(torch.nn.Linear(3, 2), torch.nn.LazyLinear(2))

    assert describe_run(stand_in(), model, CPU).num_parameters is None


def test_a_compiled_module_is_known_by_its_own_name_and_as_compiled() -> None:
    compiled = torch.compile(Model(torch.nn.Linear(3, 2)), backend="eager")
    compiled(torch.ones(1))

    info = describe_run(stand_in(), compiled, CPU)

    assert (info.model, info.num_parameters, info.compiled) == ("Model", 8, True)


@pytest.mark.parametrize(
    ("world_size", "num_devices", "num_cpus"), [(1, 1, 8), (4, 4, 2), (8, 4, 2), (16, 16, 1), (2, 0, 8)]
)
def test_the_processes_of_a_machine_share_its_cpus(
    monkeypatch: pytest.MonkeyPatch, world_size: int, num_devices: int, num_cpus: int
) -> None:
    monkeypatch.setattr(run_info, "num_usable_cpus", lambda: 8)
    trainer = stand_in(world_size=world_size, num_devices=num_devices)

    assert describe_run(trainer, Model(), CPU).num_cpus == num_cpus
