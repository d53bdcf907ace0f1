"""A small residual network that tells shapes apart, as a LightningModule.

It knows nothing of where its pictures come from and nothing of who watches it train.

Shapes: B pictures of S x S pixels, C channels.
"""

import torch
from images import NUM_CLASSES, Batch
from lightning.pytorch import LightningModule
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions beside a shortcut; the first halves the edge."""

    def __init__(self, num_inputs: int, num_outputs: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.shortcut = nn.Conv2d(num_inputs, num_outputs, 1, stride=2, bias=False)
        self.layers = nn.Sequential(
            nn.Conv2d(num_inputs, num_outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(num_outputs),
            activation(),
            nn.Conv2d(num_outputs, num_outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(num_outputs),
        )
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, S, S) to (B, C', S / 2, S / 2)."""
        mixed: Tensor = self.activation(self.shortcut(x) + self.layers(x))
        return mixed


class Classifier(LightningModule):
    """A residual network that predicts the class of a picture. A subclass may name another activation.

    Args:
        width: channels of the first stage; each of the three stages doubles them.
        fused_optimizer: let one operator update all parameters; None leaves it to torch, which loops on a CPU.
    """

    activation_type: type[nn.Module] = nn.ReLU

    def __init__(self, *, width: int = 32, learning_rate: float = 1e-3, fused_optimizer: bool | None = True) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.learning_rate = learning_rate
        self.fused_optimizer = fused_optimizer
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            Residual(width, 2 * width, self.activation_type),
            Residual(2 * width, 4 * width, self.activation_type),
            Residual(4 * width, 8 * width, self.activation_type),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8 * width, NUM_CLASSES),
        )

    def forward(self, pictures: Tensor) -> Tensor:
        """Map (B, 3, S, S) to logits (B, classes)."""
        logits: Tensor = self.layers(pictures)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Mean cross entropy in nats, a scalar, logged as `train_loss`."""
        pictures, classes = batch
        loss = nn.functional.cross_entropy(self(pictures), classes)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log the mean loss over the validation batches as `val_loss`."""
        pictures, classes = batch
        self.log("val_loss", nn.functional.cross_entropy(self(pictures), classes))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW over all parameters."""
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate, fused=self.fused_optimizer)
