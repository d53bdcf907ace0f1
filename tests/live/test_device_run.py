"""A whole fit on a stand-in accelerator: its events are passed at once, so its clock is the host's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.run_directory import RunDirectory

VALIDATION_S = 0.15
STEP_S = 0.004


class HostEvent:
    def record(self) -> None:
        self.at_s = time.perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: HostEvent) -> float:
        return (end.at_s - self.at_s) * 1e3


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        time.sleep(STEP_S)
        return torch.as_tensor(self.layer(batch).sum())

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        time.sleep(VALIDATION_S)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.filterwarnings("ignore:.*:lightning.pytorch.utilities.warnings.PossibleUserWarning")
def test_validation_and_the_profilers_own_time_are_in_no_step_of_the_devices_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Device, "event_maker", lambda _: HostEvent)
    watch = PerfWatch(Schedule(skip_first=2, wait=4, warmup=1, active=3), dir=tmp_path, quiet=True)
    data: Any = torch.randn(60, 4)
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
        val_check_interval=5,
        limit_val_batches=1,
        num_sanity_val_steps=0,
        callbacks=[watch],
    )

    trainer.fit(Model(), DataLoader(data, batch_size=2), DataLoader(data, batch_size=2))

    steps = RunDirectory(tmp_path).read_evidence().steps
    assert steps is not None
    assert steps.device_s is not None
    assert steps.num_steps >= 8
    assert float(steps.step_s.max()) < VALIDATION_S / 2
    assert steps.phase_s("forward") >= STEP_S
    assert steps.host_s.sum() == pytest.approx(steps.device_s.sum(), rel=0.3)
