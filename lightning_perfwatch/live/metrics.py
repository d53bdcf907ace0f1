"""The metrics that are logged while training goes on.

Owns their names and their sums between two rows. Knows no logger.
"""

from __future__ import annotations

from typing import NamedTuple

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.measurements import PHASES

PREFIX = "perfwatch/"


class MetricRow(NamedTuple):
    """One row on the Trainer's own step axis; a metric that can't be told is left out.

    =========================== =========================================================
    ``tokens_per_s``            tokens per second of training, padding included
    ``nonpadding_tokens_per_s`` those of them that are no padding, where a mask tells
    ``samples_per_s``           samples per second of training
    ``mfu``                     model FLOPs utilisation (0..1) of the first rank's device
    ``step_time_ms``            mean time of one batch in milliseconds
    ``data_wait_share``         share of the step (0..1) that waits for data
    ``transfer_share``          share that moves the batch to the device
    ``forward_share``           share of ``training_step``
    ``backward_share``          share of the backward pass
    ``optimizer_share``         share of the optimizer, gradient clipping and schedulers
    ``callbacks_share``         share of callbacks, hooks and logging
    ``other_share``             share of the loop itself
    =========================== =========================================================

    All keys start with ``perfwatch/``. Phases are on the host's clock; the time of a batch and the rates hold the
    work of the device too, which is waited for before a row. In a run of several processes the three rates are the
    first process's own, and their names end in ``_rank``: the others' amounts are not known without asking them, and
    a step asks nobody. The report at the end holds the sums over all ranks.
    """

    step: int
    metrics: dict[str, float]


_RATES = ("tokens_per_s", "nonpadding_tokens_per_s", "samples_per_s")


class RowSums:
    """Adds up steps and intervals until a row is due, which has to stand at the edge of an interval."""

    def __init__(self, world_size: int) -> None:
        self._suffix = "_rank" if world_size > 1 else ""
        self._clear()

    def _clear(self) -> None:
        self._phases_ns = [0] * len(PHASES)
        self._flops: float | None = 0.0
        self._intervals: list[Interval] = []

    def add(self, phases_ns: list[int], flops: float | None = None) -> None:
        """Some steps; ``flops`` are the model's own of all of them, on this process's device."""
        self._phases_ns = [total + spent for total, spent in zip(self._phases_ns, phases_ns, strict=True)]
        self._flops = None if flops is None or self._flops is None else self._flops + flops

    def add_interval(self, interval: Interval) -> None:
        """The interval that these steps make up has ended."""
        self._intervals.append(interval)

    def take(self, step: int, peak_flops_per_s: float | None = None) -> MetricRow:
        """The row of the steps since the last one, to stand at ``step``; its MFU is of ``peak_flops_per_s``."""
        host_ns, duration_s = sum(self._phases_ns), sum(interval.duration_s for interval in self._intervals)
        metrics: dict[str, float] = {}
        if host_ns > 0 and duration_s > 0:
            amounts = zip(*((i.tokens, i.nonpadding_tokens, i.samples) for i in self._intervals), strict=True)
            for name, counts in zip(_RATES, amounts, strict=True):
                known = [count for count in counts if count is not None]
                if len(known) == len(counts):
                    metrics[PREFIX + name + self._suffix] = sum(known) / duration_s
            if self._flops is not None and peak_flops_per_s is not None:
                metrics[f"{PREFIX}mfu"] = self._flops / duration_s / peak_flops_per_s
            num_steps = sum(interval.num_steps for interval in self._intervals)
            metrics[f"{PREFIX}step_time_ms"] = duration_s * 1e3 / num_steps
            for name, spent_ns in zip(PHASES, self._phases_ns, strict=True):
                metrics[f"{PREFIX}{name}_share"] = spent_ns / host_ns
        self._clear()
        return MetricRow(step, metrics)
