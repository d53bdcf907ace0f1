"""The other two examples train: the classifier learns, both networks of the GAN move, by their own optimizers."""

from typing import Any

import pytest
import torch
from classifier import Classifier
from gan import GAN
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


def fit(model: LightningModule, size: int, num_steps: int) -> None:
    torch.manual_seed(0)
    labels = torch.arange(32) % 4
    pictures = torch.randn(32, 3, size, size) * 0.1 + labels[:, None, None, None] * 0.5 - 0.75
    options: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(accelerator="cpu", max_epochs=num_steps, enable_model_summary=False, **options)
    trainer.fit(model, DataLoader(TensorDataset(pictures, labels), batch_size=32))


@pytest.mark.filterwarnings("ignore:The number of training batches:UserWarning")
def test_the_classifier_learns() -> None:
    torch.manual_seed(0)
    model = Classifier(width=8, learning_rate=1e-2)
    losses = []
    model.log = lambda name, loss: losses.append(loss.detach())  # type: ignore[method-assign, assignment, misc]
    fit(model, size=16, num_steps=15)
    assert losses[-1] < 0.5 * losses[0]


def test_both_networks_of_the_gan_are_trained() -> None:
    torch.manual_seed(0)
    model = GAN(latent_dim=8, width=4)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    fit(model, size=32, num_steps=1)
    moved = {name.split(".")[0] for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"generator", "discriminator"}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model(torch.randn(2, 8)).shape == (2, 3, 32, 32)
