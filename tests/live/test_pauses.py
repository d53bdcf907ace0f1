from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from lightning_perfwatch.evidence import Evidence, from_json, to_json
from lightning_perfwatch.measurements import Pauses
from tests.reports.harness import perfwatch


class Line(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return self.layer(batch).sum()  # type: ignore[no-any-return]

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.layer(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def pauses_of(directory: Path, callbacks: tuple[Any, ...] = (), **settings: Any) -> Pauses:
    watch = perfwatch(dir=directory / "perfwatch", quiet=True)
    data: DataLoader[torch.Tensor] = DataLoader(torch.ones(12, 2), batch_size=1)  # type: ignore[arg-type]
    options = {"enable_checkpointing": bool(callbacks), "max_epochs": 1, "num_sanity_val_steps": 1, **settings}
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=directory, callbacks=[watch, *callbacks], **options,
    )  # fmt: skip
    trainer.fit(Line(), data, data)
    stored = (directory / "perfwatch" / "evidence.json").read_bytes()
    pauses = from_json(stored).pauses
    assert pauses is not None
    return pauses


def test_validations_are_counted_without_the_sanity_check(tmp_path: Path) -> None:
    found = pauses_of(tmp_path, val_check_interval=4, limit_val_batches=2)
    assert (found.num_validations, found.val_check_interval) == (3, 4)
    assert (found.num_checkpoints, found.checkpoint_every_n_steps) == (0, None)


def test_validation_once_an_epoch_has_no_interval_of_steps(tmp_path: Path) -> None:
    found = pauses_of(tmp_path, max_epochs=2, limit_val_batches=2)
    assert (found.num_validations, found.val_check_interval) == (2, None)


def test_checkpoints_are_counted_with_their_interval(tmp_path: Path) -> None:
    saver = ModelCheckpoint(dirpath=tmp_path / "saved", every_n_train_steps=3, save_top_k=-1)
    found = pauses_of(tmp_path, (saver,), limit_val_batches=0)
    assert (found.num_checkpoints, found.checkpoint_every_n_steps) == (4, 3)
    assert found.num_validations == 0


def test_they_survive_their_stored_form() -> None:
    known = Pauses(num_validations=3, num_checkpoints=1, val_check_interval=4)
    assert from_json(to_json(Evidence(pauses=known))).pauses == known


@pytest.mark.parametrize("interval", [0.5, 6])
def test_a_part_of_an_epoch_is_told_in_steps(tmp_path: Path, interval: float) -> None:
    assert pauses_of(tmp_path, val_check_interval=interval, limit_val_batches=1).val_check_interval == 6
