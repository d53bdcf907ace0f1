"""The metrics that are logged while training goes on.

Owns their names and their sums between two rows. Knows no logger.
"""

from __future__ import annotations

from typing import NamedTuple

from lightning_perfwatch.measurements import PHASES

PREFIX = "perfwatch/"


class MetricRow(NamedTuple):
    """One row on the Trainer's own step axis; a metric that can't be told is left out.

    ======================== ============================================================
    ``tokens_per_s``         tokens per second of training, all ranks at this one's rate
    ``samples_per_s``        samples per second of training, all ranks at this one's rate
    ``mfu``                  model FLOPs utilisation (0..1) of the first rank's device
    ``step_time_ms``         mean time of one batch in milliseconds
    ``data_wait_share``      share of the step (0..1) that waits for data
    ``transfer_share``       share that moves the batch to the device
    ``forward_share``        share of ``training_step``
    ``backward_share``       share of the backward pass
    ``optimizer_share``      share of the optimizer, gradient clipping and schedulers
    ``callbacks_share``      share of callbacks, hooks and logging
    ``other_share``          share of the loop itself
    ======================== ============================================================

    All keys start with ``perfwatch/``. Phases are on the host's clock.
    """

    step: int
    metrics: dict[str, float]


class RowSums:
    """Adds up steps until a row is due."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._clear()

    def _clear(self) -> None:
        self._phases_ns = [0] * len(PHASES)
        self._num_steps = 0
        self._samples: int | None = 0
        self._tokens: int | None = 0
        self._flops: float | None = 0.0

    def add(self, phases_ns: list[int], samples: int | None, tokens: int | None, flops: float | None = None) -> None:
        """One step; ``flops`` are the model's own, on this process's device."""
        self._phases_ns = [total + spent for total, spent in zip(self._phases_ns, phases_ns, strict=True)]
        self._num_steps += 1
        self._samples = None if samples is None or self._samples is None else self._samples + samples
        self._tokens = None if tokens is None or self._tokens is None else self._tokens + tokens
        self._flops = None if flops is None or self._flops is None else self._flops + flops

    def take(self, step: int, peak_flops_per_s: float | None = None) -> MetricRow:
        """The row of the steps since the last one, to stand at ``step``; its MFU is of ``peak_flops_per_s``."""
        total_ns = sum(self._phases_ns)
        metrics: dict[str, float] = {}
        if total_ns > 0:
            for name, amount in (("tokens_per_s", self._tokens), ("samples_per_s", self._samples)):
                if amount is not None:
                    metrics[PREFIX + name] = amount * self._world_size / (total_ns / 1e9)
            if self._flops is not None and peak_flops_per_s is not None:
                metrics[f"{PREFIX}mfu"] = self._flops / (total_ns / 1e9) / peak_flops_per_s
            metrics[f"{PREFIX}step_time_ms"] = total_ns / 1e6 / self._num_steps
            for name, spent_ns in zip(PHASES, self._phases_ns, strict=True):
                metrics[f"{PREFIX}{name}_share"] = spent_ns / total_ns
        self._clear()
        return MetricRow(step, metrics)
