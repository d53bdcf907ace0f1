"""Counts the steps of a fit, closes its intervals and says when a row of metrics is due.

Owns the edges of intervals: the only places where the device is waited for. Knows no phase and no report.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from lightning_perfwatch.counts import Counted
from lightning_perfwatch.live.batch import Amounts, BatchCounter
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.flop_meter import FlopMeter
from lightning_perfwatch.live.metrics import MetricRow, RowSums
from lightning_perfwatch.live.phases import StepParts
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.steps import is_pure
from lightning_perfwatch.live.throughput import Throughput
from lightning_perfwatch.live.totals import RunTotals

log = logging.getLogger(__name__)


class Meter:
    """Throughput of one fit.

    An interval ends every ``log_every_n_steps``, where steps that stand for the run begin or end, before validation
    and a checkpoint, and with the training; on a device that runs on its own also with an epoch. What a device still
    had to do would otherwise go by while none of this is timed as training.

    Args:
        trainer: the Trainer.
        device: what has to be waited for at an edge.
        edge: within it the time is a wait at an edge.
        schedule: which steps are audited and profiled, and so do not stand for the run.
        counter: counts batches.
        totals: of all sessions.
        flops: what the batches cost.
    """

    def __init__(
        self,
        trainer: Any,
        device: Device,
        edge: AbstractContextManager[None],
        schedule: Schedule,
        counter: BatchCounter,
        totals: RunTotals,
        flops: FlopMeter,
    ) -> None:
        self._trainer = trainer
        self._device = device
        self._edge = edge
        self._schedule = schedule
        self._counter = counter
        self._totals = totals
        self._flops = flops
        self._throughput = Throughput()
        self._row = RowSums(trainer.world_size)
        self._ended: deque[tuple[Amounts, bool, float | None]] = deque()  # steps whose times are still to be added
        self._is_open_clean = True
        self._is_due = False
        self._first_global_step = trainer.global_step
        self._unknown_said = counter.is_chosen
        totals.begin(is_resumed=trainer.global_step > 0)

    def step_ended(self, step: int, batch: Any, *, is_disturbed: bool) -> bool:
        """The step number ``step`` on ``batch`` is over; whether an interval ends with it, see :meth:`close`."""
        amounts = self._counter.count(batch)
        if amounts.tokens is None and not self._unknown_said:
            self._say_unknown(batch)
        clean = not is_disturbed and self._is_clean(step)
        tokens = amounts.tokens if isinstance(amounts.tokens, int) else None  # on the device: not read here
        self._ended.append((amounts, clean, self._flops.add(batch, tokens, clean=clean)))
        self._is_open_clean = self._is_open_clean and clean
        self._is_due = self._is_row_due()
        next_is_clean = not is_disturbed and self._is_clean(step + 1)
        return self._is_due or next_is_clean is not self._is_open_clean or self._ends_epoch()

    def add(self, parts: StepParts) -> None:
        """The times of the first step that has ended and has none yet."""
        amounts, clean, flops = self._ended.popleft()
        clean = clean and not self._hides_work(parts)
        self._throughput.add(sum(parts.phases_ns) / 1e9, *amounts, clean=clean)
        self._row.add(parts.phases_ns, flops)

    def close(self) -> None:
        """End the interval, if it has a step, and wait for the device, so that it holds all of its steps' work.

        To be called when the times of all of its steps are added.
        """
        self._is_open_clean = True
        if self._throughput.num_steps == 0:
            return
        with self._edge:
            self._throughput.add_wait(self._device.synchronize())
        interval = self._throughput.close()
        if interval is not None:
            self._row.add_interval(interval)

    def row(self) -> MetricRow | None:
        """The row of metrics that is due with the step that has ended, if one is; its interval is closed."""
        if not self._is_due:
            return None
        axis = self._trainer.fit_loop.epoch_loop._batches_that_stepped
        return self._row.take(axis, self._flops.peak_flops_per_s)

    def counted(self) -> Counted:
        """All that was counted until the last edge."""
        counted = self._throughput.counted(
            num_optimizer_steps=self._trainer.global_step - self._first_global_step,
            num_synchronizations=self._device.num_synchronizations,
            nonpadding_by=self._counter.nonpadding_by,
        )
        return replace(counted, in_all=self._totals.add(counted))

    def _is_clean(self, step: int) -> bool:
        """Whether the throughput of this step is the run's own."""
        schedule = self._schedule
        return step > 0 and step >= schedule.skip_first and schedule.action(step) is Action.IDLE

    def _hides_work(self, parts: StepParts) -> bool:
        """Whether the device may have worked on steps of this interval while something else was timed."""
        return self._device.is_asynchronous and self._throughput.num_steps > 0 and not is_pure(parts)

    def _ends_epoch(self) -> bool:
        return self._device.is_asynchronous and bool(self._trainer.fit_loop.epoch_loop.batch_progress.is_last_batch)

    def _is_row_due(self) -> bool:
        """Whether Lightning logs this step too: on its axis, which counts batches but those that only accumulate."""
        loop, every = self._trainer.fit_loop.epoch_loop, self._trainer.log_every_n_steps
        return every > 0 and not loop._should_accumulate() and (loop._batches_that_stepped + 1) % every == 0

    def _say_unknown(self, batch: Any) -> None:
        self._unknown_said = True
        log.info(
            "PerfWatch can't tell the tokens of a batch of type %s; name their key or a function: "
            "PerfWatch(tokens='input_ids').",
            type(batch).__name__,
        )
