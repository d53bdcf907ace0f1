"""Faults of the training's bookkeeping: gradients set to zero instead of dropped, and a rank that has more to do."""

import time
from typing import Any

import torch
from gpt import GPT, Batch
from torch import Tensor


class ZeroFillingGPT(GPT):
    """A GPT that fills its gradients with zeros, as torch did by default before 2.0."""

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        """Keep the memory and fill it."""
        optimizer.zero_grad(set_to_none=False)


class StragglingGPT(GPT):
    """A GPT that has something else to do on every rank but the first, for which that one waits.

    Args:
        delay_s: how long that takes in each step.
        arguments: those of a GPT.
    """

    def __init__(self, *, delay_s: float = 0.1, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.delay_s = delay_s

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, later on some ranks."""
        if self.global_rank:
            time.sleep(self.delay_s)
        return super().training_step(batch, batch_idx)


class SteppingGPT(GPT):
    """A GPT that counts its batches in an attribute that `forward` reads, for which compiled code is special."""

    def on_fit_start(self) -> None:
        """Start at zero."""
        self.num_batches = 0

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Train as a GPT does, and count every eighth batch."""
        self.num_batches = batch_idx // 8
        return super().training_step(batch, batch_idx)

    def forward(self, input_ids: Tensor) -> Tensor:
        """The logits of a GPT, warmed up over the first hundred counts."""
        return super().forward(input_ids) * min(1.0, 0.5 + self.num_batches / 200)
