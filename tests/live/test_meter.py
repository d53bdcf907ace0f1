"""Whole fits on a stand-in accelerator whose work takes time of its own, which only a synchronisation waits for."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, Dataset

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.counts import Counted
from lightning_perfwatch.run_directory import RunDirectory

WORK_S = 0.004
NEVER = Schedule(skip_first=0, wait=10_000)


class Accelerator:
    """What ``torch.get_device_module`` gives: a queue that only ``synchronize`` waits for."""

    def __init__(self) -> None:
        self.done_s = 0.0
        self.num_steps = 0
        self.waits_after: list[int] = []

    def launch(self) -> None:
        """One step's work, begun when the step before is done."""
        self.num_steps += 1
        self.done_s = max(self.done_s, time.perf_counter()) + WORK_S

    def synchronize(self, device: Any) -> None:
        self.waits_after.append(self.num_steps)
        time.sleep(max(0.0, self.done_s - time.perf_counter()))


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """The CPU under the guise of a device that runs on its own."""
    stand_in = Accelerator()
    monkeypatch.setattr("lightning_perfwatch.live.clock._ASYNCHRONOUS", ("cpu",))
    monkeypatch.setattr(torch, "get_device_module", lambda _: stand_in)
    return stand_in


class Sentences(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        mask = (torch.arange(8) < 5).long()
        return {"input_ids": torch.zeros(8, dtype=torch.long), "attention_mask": mask}


class Model(LightningModule):
    def __init__(self, accelerator: Accelerator | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.accelerator = accelerator

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.accelerator is not None:
            self.accelerator.launch()
        return torch.as_tensor(self.layer(torch.ones(2, 4)).sum())

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if self.accelerator is not None:
            self.accelerator.synchronize(None)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(
    directory: Path, model: Model, num_steps: int = 20, *others: Any, val: bool = False, **settings: Any
) -> Counted:
    schedule = settings.pop("schedule", NEVER)
    watch = PerfWatch(schedule, dir=directory, quiet=True)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(
        accelerator="cpu",
        callbacks=[watch, *others],
        **{**quiet, "max_epochs": 1, "num_sanity_val_steps": 0, **settings},
    )
    trainer.fit(model, DataLoader(Sentences(2 * num_steps), 2), DataLoader(Sentences(2), 2) if val else None)
    counted = RunDirectory(directory).read_evidence().counted
    assert counted is not None
    return counted


def test_the_device_is_waited_for_at_the_edges_of_intervals_and_nowhere_else(
    tmp_path: Path, accelerator: Accelerator
) -> None:
    counted = fit(tmp_path, Model(accelerator), 22, log_every_n_steps=5)

    assert accelerator.waits_after == [1, 5, 10, 15, 20, 22]  # the first step stands for itself
    assert [interval.last_step + 1 for interval in counted.intervals] == accelerator.waits_after
    assert counted.num_synchronizations == 6
    assert counted.sync_policy == "at the edges of intervals only, never inside of one"


def test_without_a_row_to_log_the_device_is_waited_for_at_the_ends_only(
    tmp_path: Path, accelerator: Accelerator
) -> None:
    counted = fit(tmp_path, Model(accelerator), 40, log_every_n_steps=0)

    assert accelerator.waits_after == [1, 40]
    assert counted.num_synchronizations == len(counted.intervals) == 2


@pytest.mark.filterwarnings("ignore:.*:lightning.pytorch.utilities.warnings.PossibleUserWarning")
@pytest.mark.filterwarnings("ignore:.*will save all:UserWarning")
def test_an_interval_holds_all_of_its_steps_work_whatever_interrupts_them(
    tmp_path: Path, accelerator: Accelerator
) -> None:
    """Validation, checkpoints, epochs and windows all let the device catch up while no step is timed."""
    counted = fit(
        tmp_path / "run",
        Model(accelerator),
        26,
        ModelCheckpoint(tmp_path, every_n_train_steps=9, save_top_k=-1),
        val=True,
        schedule=Schedule(skip_first=3, wait=8, warmup=1, active=2),
        enable_checkpointing=True,
        max_epochs=2,
        val_check_interval=13,
        log_every_n_steps=6,
    )

    clean = [interval for interval in counted.intervals if interval.clean]
    assert sum(interval.num_steps for interval in counted.intervals) == 52
    assert clean
    for interval in clean:
        assert interval.duration_s >= 0.999 * interval.num_steps * WORK_S, interval


READS = ("item", "tolist", "cpu", "numpy", "__int__", "__float__", "__bool__", "__index__")


def test_a_step_reads_no_tensor_and_an_edge_reads_one_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    steps_done = itertools.count()
    reads: list[tuple[str, int]] = []
    now = {"step": 0}

    def watched(name: str) -> Any:
        original = getattr(torch.Tensor, name)

        def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.startswith("lightning_perfwatch"):
                reads.append((name, now["step"]))
            return original(self, *args, **kwargs)

        return read

    def training_step(batch: Any, batch_idx: int) -> torch.Tensor:
        now["step"] = next(steps_done) + 1
        return torch.as_tensor(model.layer(torch.ones(2, 4)).sum())

    monkeypatch.setattr(model, "training_step", training_step)
    for name in READS:
        monkeypatch.setattr(torch.Tensor, name, watched(name))
    counted = fit(tmp_path, model, 22, log_every_n_steps=5)

    assert reads == [("item", step) for step in (1, 5, 10, 15, 20, 22)]
    assert (counted.tokens, counted.nonpadding_tokens, counted.nonpadding_by) == (352, 220, "attention_mask")
