"""Faults planted on purpose, one class each, so that a watcher has something to find.

The other fault, a loader that can't keep up, is `load_time_s` in `data.py`.
"""

from gpt import GPT, Batch
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
