"""A small DCGAN as a LightningModule with manual optimisation: two networks, two optimizers, one batch.

It knows nothing of where its pictures come from and nothing of who watches it train.

Shapes: B pictures of 32 x 32 pixels, Z latent dimensions.
"""

import torch
from images import Batch
from lightning.pytorch import LightningModule
from torch import Tensor, nn


def generator(latent_dim: int, width: int) -> nn.Sequential:
    """Maps (B, Z, 1, 1) to pictures (B, 3, 32, 32) in -1..1 (Radford et al. 2016)."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent_dim, 4 * width, 4),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(width: int) -> nn.Sequential:
    """Maps pictures (B, 3, 32, 32) to logits (B,) of being real."""
    return nn.Sequential(
        nn.Conv2d(3, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2),
        nn.Conv2d(4 * width, 1, 4),
        nn.Flatten(0),
    )


class GAN(LightningModule):
    """A generator and a discriminator that train against each other.

    Args:
        latent_dim: numbers of which a picture is made.
        width: channels of the widest layers but for a factor of four.
        fused_optimizer: let one operator update all parameters; None leaves it to torch, which loops on a CPU.
    """

    def __init__(
        self,
        *,
        latent_dim: int = 64,
        width: int = 32,
        learning_rate: float = 2e-4,
        fused_optimizer: bool | None = True,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.latent_dim = latent_dim
        self.learning_rate = learning_rate
        self.fused_optimizer = fused_optimizer
        self.generator = generator(latent_dim, width)
        self.discriminator = discriminator(width)

    def forward(self, latents: Tensor) -> Tensor:
        """Map (B, Z) to pictures (B, 3, 32, 32)."""
        pictures: Tensor = self.generator(latents[:, :, None, None])
        return pictures

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the discriminator, then the generator; log both losses."""
        real, _ = batch
        generator_optimizer, discriminator_optimizer = self.optimizers()  # type: ignore[attr-defined]  # a list
        fake = self(torch.randn(len(real), self.latent_dim, device=self.device))

        discriminator_loss = self.loss(real, is_real=True) + self.loss(fake.detach(), is_real=False)
        discriminator_optimizer.zero_grad()
        self.manual_backward(discriminator_loss)
        discriminator_optimizer.step()

        self.discriminator.requires_grad_(False)  # the generator's gradient goes through it, not into it
        generator_loss = self.loss(fake, is_real=True)
        generator_optimizer.zero_grad()
        self.manual_backward(generator_loss)
        generator_optimizer.step()
        self.discriminator.requires_grad_(True)
        self.report(discriminator_loss.detach(), generator_loss.detach())

    def loss(self, pictures: Tensor, is_real: bool) -> Tensor:
        """Mean cross entropy in nats of the discriminator's opinion, a scalar."""
        logits = self.discriminator(pictures)
        wanted = torch.ones_like(logits) if is_real else torch.zeros_like(logits)
        return nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    def report(self, discriminator_loss: Tensor, generator_loss: Tensor) -> None:
        """Log the losses of one step."""
        self.log("discriminator_loss", discriminator_loss)
        self.log("generator_loss", generator_loss)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """Adam for each network, with the betas of the DCGAN paper."""
        return [
            torch.optim.Adam(
                network.parameters(), lr=self.learning_rate, betas=(0.5, 0.999), fused=self.fused_optimizer
            )
            for network in (self.generator, self.discriminator)
        ]
