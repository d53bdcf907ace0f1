"""Faults of what runs beside the training: callbacks and hooks that eat the step, and garbage collected by hand."""

import gc
from pathlib import Path
from typing import Any

import torch
from gan import GAN
from gpt import GPT, Batch
from images import Batch as Pictures
from lightning.pytorch import Callback, LightningModule, Trainer
from PIL import Image
from torch import Tensor


class WeightQuantiles(Callback):
    """Keeps the quartiles of all parameters, of every step."""

    def __init__(self) -> None:
        self.history: list[Tensor] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Sort every parameter."""
        quartiles = torch.tensor([0.25, 0.5, 0.75], device=pl_module.device)
        with torch.no_grad():
            self.history.append(
                torch.stack([p.flatten()[:1_000_000].quantile(quartiles) for p in pl_module.parameters()])
            )


class PictureWriter(Callback):
    """Writes the pictures of every batch to files, to see what is trained on."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Pictures, batch_idx: int
    ) -> None:
        """Write one PNG for each picture."""
        folder = Path(trainer.default_root_dir) / "pictures"
        folder.mkdir(exist_ok=True)
        pixels = ((batch[0] + 1) * 127.5).byte().permute(0, 2, 3, 1).cpu().numpy()
        for number, picture in enumerate(pixels):
            Image.fromarray(picture).resize((128, 128)).save(folder / f"{number}.png")


class GradientQuantilesGPT(GPT):
    """A GPT that keeps the quartiles of its gradients in a hook of its own."""

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Sort every gradient."""
        quartiles = torch.tensor([0.25, 0.5, 0.75], device=self.device)
        self.quartiles = [p.grad.flatten().quantile(quartiles) for p in self.parameters() if p.grad is not None]


class CollectGarbage(Callback):
    """Collects garbage after every batch, against running out of memory."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look at every object that Python knows."""
        gc.collect()


class CollectingGPT(GPT):
    """A GPT that collects garbage before every batch."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Look at every object that Python knows, then train as a GPT does."""
        gc.collect()
        return super().training_step(batch, batch_idx)


class CollectingGAN(GAN):
    """A GAN that collects garbage between its two networks."""

    def report(self, discriminator_loss: Tensor, generator_loss: Tensor) -> None:
        """Log the losses, then look at every object that Python knows."""
        super().report(discriminator_loss, generator_loss)
        gc.collect()
