"""Faults that make the host wait for the device at every step; what they read is what people read."""

import torch
from classifier import Classifier
from gan import GAN
from gpt import GPT, Batch
from images import Batch as Pictures
from torch import Tensor


class ItemEveryStepGPT(GPT):
    """A GPT that keeps its loss curve in a Python list: the host waits for the device at every step."""

    def on_fit_start(self) -> None:
        """Start an empty curve."""
        self.loss_curve: list[float] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, and read the loss."""
        loss = super().training_step(batch, batch_idx)
        self.loss_curve.append(loss.item())
        return loss


class PrintingGPT(GPT):
    """A GPT that prints its loss at every step."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, and print the loss."""
        loss = super().training_step(batch, batch_idx)
        print(loss)
        return loss


class BranchingGPT(GPT):
    """A GPT that looks at every loss whether it still is a number."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor | None:  # type: ignore[override]  # None skips it
        """Train as a GPT does, but on no batch with a broken loss."""
        loss = super().training_step(batch, batch_idx)
        if torch.isnan(loss):
            return None
        return loss


class CountingClassifier(Classifier):
    """A classifier that keeps every prediction as NumPy array, for an accuracy at the end of the epoch."""

    def on_train_epoch_start(self) -> None:
        """Start with no predictions."""
        self.hits: list[bool] = []

    def training_step(self, batch: Pictures, batch_idx: int) -> Tensor:
        """Train as a classifier does, and copy predictions to the host."""
        pictures, classes = batch
        logits = self(pictures)
        self.hits.extend((logits.argmax(dim=1).cpu().numpy() == classes.cpu().numpy()).tolist())
        loss = torch.nn.functional.cross_entropy(logits, classes)
        self.log("train_loss", loss)
        return loss


class FloatingGAN(GAN):
    """A GAN that sums up its losses as Python numbers."""

    def on_train_epoch_start(self) -> None:
        """Start at nothing."""
        self.total_loss = 0.0

    def report(self, discriminator_loss: Tensor, generator_loss: Tensor) -> None:
        """Add the losses of one step to the sum."""
        self.total_loss += float(discriminator_loss) + float(generator_loss)


class ProgressBarGPT(GPT):
    """A GPT that shows its loss in the progress bar, which reads it at every step."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch, shown."""
        loss = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss


class ProgressBarGAN(GAN):
    """A GAN that shows its losses in the progress bar, which reads them at every step."""

    def report(self, discriminator_loss: Tensor, generator_loss: Tensor) -> None:
        """Show the losses of one step."""
        self.log_dict({"d_loss": discriminator_loss, "g_loss": generator_loss}, prog_bar=True)
