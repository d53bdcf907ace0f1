"""Faults of the computation: loops in Python, formulas written out, dropout on large tensors, stalls, held graphs."""

import math
import time

import torch
from classifier import Classifier
from gan import GAN
from gpt import GPT, Batch
from images import Batch as Pictures
from torch import Tensor, nn


class PatchLoopClassifier(Classifier):
    """A classifier that evens out the contrast of its pictures patch by patch."""

    patch = 4

    def training_step(self, batch: Pictures, batch_idx: int) -> Tensor:
        """Train as a classifier does, on evened pictures."""
        pictures, classes = batch
        evened = torch.empty_like(pictures)
        for number in range(pictures.shape[0]):
            for top in range(0, pictures.shape[2], self.patch):
                for left in range(0, pictures.shape[3], self.patch):
                    patch = pictures[number, :, top : top + self.patch, left : left + self.patch]
                    evened[number, :, top : top + self.patch, left : left + self.patch] = patch - patch.mean()
        return super().training_step((evened, classes), batch_idx)


class PairLoopGAN(GAN):
    """A GAN whose generator is rewarded for pictures that differ, compared pair by pair."""

    def loss(self, pictures: Tensor, is_real: bool) -> Tensor:
        """The loss of a GAN, less the mean distance of the generator's pictures."""
        loss = super().loss(pictures, is_real)
        if not (is_real and pictures.requires_grad):
            return loss
        distances = [(one - other).abs().mean() for one in pictures for other in pictures[:16]]
        return loss - 0.01 * torch.stack(distances).mean()


class WrittenOutGELU(nn.Module):
    """GELU as its formula: a dozen passes over memory for one."""

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to itself."""
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


class WrittenOutGPT(GPT):
    """A GPT with its activation written out."""

    activation_type = WrittenOutGELU


class WrittenOutMish(nn.Module):
    """Mish as its formula."""

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to itself."""
        return x * torch.tanh(torch.log(1 + torch.exp(x)))


class WrittenOutClassifier(Classifier):
    """A classifier with its activation written out."""

    activation_type = WrittenOutMish


class MishClassifier(Classifier):
    """A classifier with the same activation as one operator."""

    activation_type = nn.Mish


class DroppingReLU(nn.Sequential):
    """ReLU, then dropout of single values, on the largest tensors that there are."""

    def __init__(self) -> None:
        super().__init__(nn.ReLU(), nn.Dropout(0.1))


class DroppingClassifier(Classifier):
    """A classifier with dropout after each activation."""

    activation_type = DroppingReLU


class StallingGPT(GPT):
    """A GPT that waits now and then for something of no use to the step, such as a lock or a metrics server."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, and stall at every tenth batch."""
        if batch_idx % 10 == 0:
            time.sleep(1.0)
        return super().training_step(batch, batch_idx)


class ReviewingClassifier(Classifier):
    """A classifier that looks through its last batches again now and then, within a step."""

    def training_step(self, batch: Pictures, batch_idx: int) -> Tensor:
        """Train as a classifier does, and review at every twelfth batch."""
        if batch_idx % 12 == 0:
            with torch.no_grad():
                for _ in range(25):
                    self(batch[0])
        return super().training_step(batch, batch_idx)


class GraphKeepingGPT(GPT):
    """A GPT that keeps how well it still knows the batch before, and with each loss all that it was computed from."""

    def on_fit_start(self) -> None:
        """Start with no losses."""
        self.losses: list[Tensor] = []
        self.last_batch: Batch | None = None

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, and look back."""
        if self.last_batch is not None:
            self.losses.append(self.loss(self.last_batch))
        self.last_batch = batch
        return super().training_step(batch, batch_idx)


class PictureKeepingGAN(GAN):
    """A GAN that keeps pictures of the same latents as they get better, with the graph that made each."""

    def on_fit_start(self) -> None:
        """Start with no pictures."""
        self.latents = torch.randn(64, self.latent_dim, device=self.device)
        self.pictures: list[Tensor] = []

    def report(self, discriminator_loss: Tensor, generator_loss: Tensor) -> None:
        """Log the losses, and make pictures."""
        super().report(discriminator_loss, generator_loss)
        self.pictures.append(self(self.latents))
