from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.profilers import Profiler
from torch.utils.data import DataLoader

from lightning_perfwatch.live.actions import Meaning, Part, meaning
from lightning_perfwatch.measurements import PHASES

CHECKPOINT_KEY = "ModelCheckpoint{'monitor': 'val.loss', 'mode': 'min', 'every_n_train_steps': 1}"

STEP = [
    "[_TrainingEpochLoop].train_dataloader_next",
    "[LightningModule]M.on_before_batch_transfer",
    "[Strategy]S.batch_to_device",
    "[LightningModule]M.transfer_batch_to_device",
    "[LightningModule]M.on_after_batch_transfer",
    "[Callback]C.on_train_batch_start",
    "[Callback]K.on_train_batch_start",
    "[LightningModule]M.on_train_batch_start",
    "[Strategy]S.on_train_batch_start",
]
AUTOMATIC_BATCH = [
    "run_training_batch",
    "[LightningModule]M.optimizer_step",
    "[Strategy]S.training_step",
    "[Callback]C.on_before_zero_grad",
    "[Callback]K.on_before_zero_grad",
    "[LightningModule]M.on_before_zero_grad",
    "[LightningModule]M.optimizer_zero_grad",
    "[Strategy]S.backward",
    "[Callback]C.on_before_backward",
    "[Callback]K.on_before_backward",
    "[LightningModule]M.on_before_backward",
    "[Callback]C.on_after_backward",
    "[Callback]K.on_after_backward",
    "[LightningModule]M.on_after_backward",
    "[Callback]C.on_before_optimizer_step",
    "[Callback]K.on_before_optimizer_step",
    "[LightningModule]M.on_before_optimizer_step",
    "[LightningModule]M.configure_gradient_clipping",
    "[LightningModule]M.lr_scheduler_step",
]
MANUAL_BATCH = [
    "run_training_batch",
    "[Strategy]S.training_step",
    "[Callback]C.on_before_backward",
    "[Callback]K.on_before_backward",
    "[LightningModule]M.on_before_backward",
    "[Callback]C.on_after_backward",
    "[Callback]K.on_after_backward",
    "[LightningModule]M.on_after_backward",
    "optimizer_step",
    "[Callback]C.on_before_optimizer_step",
    "[Callback]K.on_before_optimizer_step",
    "[LightningModule]M.on_before_optimizer_step",
]
STEP_END = [
    "[Callback]C.on_train_batch_end",
    "[Callback]K.on_train_batch_end",
    "save_checkpoint",
    "[Callback]C.on_save_checkpoint",
    "[Callback]K.on_save_checkpoint",
    "[LightningModule]M.on_save_checkpoint",
    "[LightningModule]M.on_train_batch_end",
]
VALIDATION = [
    "[LightningModule]M.on_validation_model_zero_grad",
    "[LightningModule]M.on_validation_model_eval",
    "[Callback]C.on_validation_start",
    "[Callback]K.on_validation_start",
    "[LightningModule]M.on_validation_start",
    "[Strategy]S.on_validation_start",
    "[Callback]C.on_validation_epoch_start",
    "[Callback]K.on_validation_epoch_start",
    "[LightningModule]M.on_validation_epoch_start",
    "[_EvaluationLoop].val_next",
    "[LightningModule]M.on_before_batch_transfer",
    "[Strategy]S.batch_to_device",
    "[LightningModule]M.transfer_batch_to_device",
    "[LightningModule]M.on_after_batch_transfer",
    "[Callback]C.on_validation_batch_start",
    "[Callback]K.on_validation_batch_start",
    "[LightningModule]M.on_validation_batch_start",
    "[Strategy]S.validation_step",
]
BETWEEN_EPOCHS = [
    "[Callback]C.on_train_epoch_end",
    "[LightningModule]M.on_train_epoch_end",
    "[Callback]K.on_train_epoch_end",
    "[Callback]C.on_train_epoch_start",
    "[Callback]K.on_train_epoch_start",
    "[LightningModule]M.on_train_epoch_start",
    "run_training_epoch",
]


class Recorder(Profiler):
    def __init__(self, shortened: dict[str, str]) -> None:
        super().__init__()
        self.begun: list[str] = []
        self._shortened = shortened

    def start(self, action_name: str) -> None:
        for long, short in self._shortened.items():
            action_name = action_name.replace(long, short)
        self.begun.append(action_name)

    def stop(self, action_name: str) -> None: ...


class C(Callback): ...


class M(LightningModule):
    def __init__(self, *, automatic: bool) -> None:
        super().__init__()
        self.automatic_optimization = automatic
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor | None:
        loss: torch.Tensor = self.layer(batch).sum()
        if self.automatic_optimization:
            return loss
        self.manual_backward(loss)
        self.optimizers().step()  # type: ignore[union-attr]
        return None

    def validation_step(self, batch: Any, batch_idx: int) -> None: ...

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


@pytest.mark.filterwarnings("ignore:.*:lightning.pytorch.utilities.warnings.PossibleUserWarning")
@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization:UserWarning")
@pytest.mark.parametrize(("automatic", "batch"), [(True, AUTOMATIC_BATCH), (False, MANUAL_BATCH)])
def test_lightning_announces_a_training_by_exactly_these_names(
    automatic: bool, batch: list[str], tmp_path: Path
) -> None:
    checkpoint = ModelCheckpoint(tmp_path, every_n_train_steps=1, save_top_k=-1)
    recorder = Recorder({checkpoint.state_key: "K", "SingleDeviceStrategy": "S"})
    loader: Any = DataLoader(torch.randn(2, 4), batch_size=2)  # type: ignore[arg-type]
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        max_epochs=2,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=2,
        profiler=recorder,
        callbacks=[C(), checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )

    trainer.fit(M(automatic=automatic), loader, loader)

    first_epoch = recorder.begun.index("run_training_epoch")
    step = STEP + batch + STEP_END
    expected = ["run_training_epoch", *step, *BETWEEN_EPOCHS, *step, *VALIDATION]
    assert recorder.begun[first_epoch : first_epoch + len(expected)] == expected


@pytest.mark.parametrize(
    ("action", "part"),
    [
        ("[_TrainingEpochLoop].train_dataloader_next", Part.DATA_WAIT),
        ("[_EvaluationLoop].val_next", Part.VALIDATION),
        ("[Strategy]SingleDeviceStrategy.batch_to_device", Part.TRANSFER),
        ("[LightningModule]M.transfer_batch_to_device", Part.TRANSFER),
        ("[LightningModule]M.on_before_batch_transfer", Part.TRANSFER),
        ("[LightningDataModule]D.on_after_batch_transfer", Part.TRANSFER),
        ("[Strategy]DDPStrategy.training_step", Part.FORWARD),
        ("[Strategy]DDPStrategy.backward", Part.BACKWARD),
        ("[LightningModule]M.optimizer_step", Part.OPTIMIZER),
        ("optimizer_step", Part.OPTIMIZER),
        ("[LightningModule]M.optimizer_zero_grad", Part.OPTIMIZER),
        ("[LightningModule]M.configure_gradient_clipping", Part.OPTIMIZER),
        ("[LightningModule]M.lr_scheduler_step", Part.OPTIMIZER),
        ("[Strategy]S.validation_step", Part.VALIDATION),
        ("[Callback]C.on_validation_batch_end", Part.VALIDATION),
        ("[LightningModule]M.on_validation_model_eval", Part.VALIDATION),
        ("save_checkpoint", Part.CHECKPOINT),
        ("[Callback]C.on_save_checkpoint", Part.CHECKPOINT),
        ("[LightningModule]M.on_save_checkpoint", Part.CHECKPOINT),
        (f"[Callback]{CHECKPOINT_KEY}.on_train_batch_end", Part.CHECKPOINT),
        ("run_training_batch", Part.OTHER),
        ("run_training_epoch", Part.OTHER),
        ("a name of the user's own", Part.ENCLOSING),
        ("", Part.ENCLOSING),
        ("[", Part.ENCLOSING),
        ("[no end", Part.ENCLOSING),
        ("my.forward", Part.ENCLOSING),
        ("val_metrics", Part.ENCLOSING),
        ("my.training_step", Part.ENCLOSING),
        ("backward", Part.ENCLOSING),
    ],
)
def test_the_part_of_an_action_that_is_no_ones_hook(action: str, part: Part) -> None:
    assert meaning(action, [CHECKPOINT_KEY]) == Meaning(part)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("[Callback]EMA.on_train_batch_end", Meaning(Part.CALLBACKS, "EMA", "on_train_batch_end")),
        ("[Callback]EMA.on_train_epoch_start", Meaning(Part.EPOCH_START, "EMA", "on_train_epoch_start")),
        ("[LightningModule]M.on_train_end", Meaning(Part.CALLBACKS, "M (LightningModule)", "on_train_end")),
        ("[Strategy]S.on_train_batch_start", Meaning(Part.CALLBACKS, "S (Strategy)", "on_train_batch_start")),
        ("[LightningDataModule]D.setup", Meaning(Part.CALLBACKS, "D (LightningDataModule)", "setup")),
        # a state key may hold anything: only what follows the last dot is the hook
        ("[Callback]Stop{'monitor': 'a.b]c'}.on_train_start", Meaning(Part.CALLBACKS, "Stop", "on_train_start")),
        ("[Callback]my.pkg.Logger.on_fit_end", Meaning(Part.CALLBACKS, "my.pkg.Logger", "on_fit_end")),
        # a hook that a later Lightning may add
        ("[Callback]EMA.on_something_new", Meaning(Part.CALLBACKS, "EMA", "on_something_new")),
        # a checkpoint callback that was not announced as one
        (f"[Callback]{CHECKPOINT_KEY}.on_train_start", Meaning(Part.CALLBACKS, "ModelCheckpoint", "on_train_start")),
    ],
)  # fmt: skip
def test_the_owner_of_a_hook(action: str, expected: Meaning) -> None:
    assert meaning(action) == expected


def test_every_phase_is_a_part_and_what_lies_outside_of_steps_is_no_phase() -> None:
    assert [part.value for part in Part if part.phase is not None] == list(PHASES)
    assert [PHASES[part.phase] for part in Part if part.phase is not None] == list(PHASES)
    outside = {part for part in Part if part.phase is None}
    assert outside == {Part.VALIDATION, Part.CHECKPOINT, Part.EPOCH_START, Part.ENCLOSING, Part.CAPTURE, Part.EDGE}
