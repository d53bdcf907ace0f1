"""What a fit stops training for, as the Trainer is set and as it was counted.

Owns the reading of those settings. Measures nothing.
"""

from __future__ import annotations

from typing import Any

from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.measurements import Pauses


def describe_pauses(trainer: Any, timer: PhaseTimer) -> Pauses:
    """Validations and checkpoints so far, and their settings."""
    batches = getattr(trainer, "val_check_batch", None)
    per_epoch = getattr(trainer, "num_training_batches", None)
    within_epoch = isinstance(batches, int) and (trainer.check_val_every_n_epoch is None or batches != per_epoch)
    return Pauses(
        num_validations=timer.num_validations,
        num_checkpoints=timer.num_checkpoints,
        val_check_interval=batches if within_epoch and batches else None,
        checkpoint_every_n_steps=_every_n_steps(trainer.callbacks),
    )


def _every_n_steps(callbacks: Any) -> int | None:
    settings = [getattr(callback, "_every_n_train_steps", None) for callback in callbacks]
    return min((steps for steps in settings if isinstance(steps, int) and steps > 0), default=None)
