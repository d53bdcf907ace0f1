"""Counts the steps of a fit, closes its intervals and says when a row of metrics is due.

Owns the edges of intervals: the only places where the device is waited for. Knows no phase and no report.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.live.batch_counter import BatchCounter, Taken
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.flop_meter import FlopMeter
from lightning_perfwatch.live.metrics import MetricRow, RowSums
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.stopwatch import Nanoseconds
from lightning_perfwatch.live.tally import Count
from lightning_perfwatch.live.throughput import Throughput
from lightning_perfwatch.live.totals import RunTotals
from lightning_perfwatch.measurements import Seconds

log = logging.getLogger(__name__)

_NO_WAIT_S = 20e-6  # what a synchronisation takes at most on a device that has nothing to do
_LONG_GAP_S = 100e-6


class _Run:
    """Steps that followed each other and count alike, so that most of them are told by a number."""

    __slots__ = ("amounts", "clean", "flops", "is_begun", "nonpadding", "num_steps")

    def __init__(self, taken: Taken, clean: bool) -> None:
        self.amounts = taken.amounts
        self.clean = clean
        self.flops: float | None = None  # of one step
        self.num_steps = 1  # whose times are still to be added
        self.nonpadding = [taken.nonpadding] if taken.is_apart else None  # of each of these steps
        self.is_begun = False  # whether the times of its first step are added

    @property
    def tokens(self) -> int | None:
        """Tokens of one step; None also where they lie on the device, since they are not read here."""
        return self.amounts.tokens if isinstance(self.amounts.tokens, int) else None

    def add(self, taken: Taken) -> None:
        """One more step, with the same amounts."""
        self.num_steps += 1
        if self.nonpadding is not None:
            self.nonpadding.append(taken.nonpadding)

    def leave(self, num_steps: int) -> list[Count] | None:
        """The oldest steps' times are added; what each of them held besides padding, where they differ in that."""
        self.num_steps -= num_steps
        if self.nonpadding is None:
            return None
        left, self.nonpadding = self.nonpadding[:num_steps], self.nonpadding[num_steps:]
        return left


class Meter:
    """Throughput of one fit.

    An interval ends every ``log_every_n_steps``, where steps that stand for the run begin or end, before validation
    and a checkpoint, and with the training; on a device that runs on its own also with an epoch. What a device still
    had to do would otherwise go by while none of this is timed as training.

    Args:
        trainer: the Trainer.
        device: what has to be waited for at an edge.
        timer: within its ``edge`` the time is a wait at an edge, and its ``marks`` know when the run began.
        schedule: which steps are audited and profiled, and so do not stand for the run.
        counter: counts batches.
        totals: of all sessions.
        flops: what the batches cost.
    """

    def __init__(
        self,
        trainer: Any,
        device: Device,
        timer: PhaseTimer,
        schedule: Schedule,
        counter: BatchCounter,
        totals: RunTotals,
        flops: FlopMeter,
    ) -> None:
        self._trainer = trainer
        self._device = device
        self._timer = timer
        self._plan = Plan(schedule)
        self._counter = counter
        self._totals = totals
        self._flops = flops
        self._throughput = Throughput()
        self._row = RowSums(trainer.world_size)
        self._runs: deque[_Run] = deque()  # of steps whose times are still to be added
        self._is_open_clean = True
        self._is_due = False
        self._next_is_clean = False  # the first step
        self._unchanged_until = 0
        self._loop = trainer.fit_loop.epoch_loop
        self._ended_ns = perf_counter_ns()  # when the last step ended
        self._hides_end = False
        self.num_rows = 0  # that were due
        self._first_global_step = trainer.global_step
        self._unknown_said = counter.is_chosen
        totals.begin(is_resumed=trainer.global_step > 0)

    def replan(self, plan: Plan) -> None:
        """From the step after the next one on, ``plan`` says what is done with a step."""
        self._plan = plan
        self._unchanged_until = 0

    def step_ended(self, step: int, batch: Any, *, is_disturbed: bool, row_stride: int = 1) -> bool:
        """The step number ``step`` on ``batch`` is over; whether an interval ends with it, see :meth:`close`.

        Only every ``row_stride``-th row that is due is made.
        """
        self._ended_ns = perf_counter_ns()
        taken = self._counter.take(batch)
        clean = not is_disturbed and self._next_is_clean
        run = self._runs[-1] if self._runs else None
        if run is not None and run.amounts is taken.amounts and run.clean is clean and self._flops.is_settled:
            run.add(taken)
        else:
            self._begin_run(batch, taken, clean)
        self._is_open_clean = self._is_open_clean and clean
        self._is_due = self._is_row_due(row_stride)
        if step + 1 >= self._unchanged_until:
            self._next_is_clean = self._is_clean(step + 1)
            self._unchanged_until = self._plan.next_change(step + 1)
        next_is_clean = not is_disturbed and self._next_is_clean
        return self._is_due or next_is_clean is not self._is_open_clean or self._ends_epoch()

    def quiet_until(self, step: int) -> int:
        """After the step number ``step``: up to which one no interval ends by itself, and no row is due."""
        every = self._trainer.log_every_n_steps
        num_logged = (self._loop._batches_that_stepped + 1) % every if every > 0 else None
        if num_logged == 0 or not (self._next_is_clean and self._is_open_clean):
            return step
        return min(self._unchanged_until - 1, sys.maxsize if num_logged is None else step + every - num_logged)

    def adds_alike(self, batch: Any, now_ns: int) -> bool:
        """Take a step, over at ``now_ns``, that lies before :meth:`quiet_until` and whose ``batch`` counts as the last.

        False if it counts otherwise: then nothing has changed.
        """
        run = self._runs[-1] if self._runs else None
        if run is None or not run.clean or not self._flops.is_settled or self._ends_epoch():
            return False
        taken = self._counter.take_like(batch, run.amounts)
        if taken is None:
            return False
        self._ended_ns = now_ns
        run.add(taken)
        return True

    def add(self, phases_ns: Nanoseconds, are_pure: npt.NDArray[np.bool_]) -> None:
        """The times of the first steps that have ended and have none yet, by phase, shape (steps, phases).

        ``are_pure`` says of each step that hardly anything but the step lies between its ends.
        """
        first = 0
        while first < len(phases_ns):
            run = self._runs[0]
            num_steps = min(run.num_steps, len(phases_ns) - first)
            steps = slice(first, first + num_steps)
            self._add_alike(run, phases_ns[steps], are_pure[steps])
            first += num_steps
            if run.num_steps == 0:
                self._runs.popleft()

    def _add_alike(self, run: _Run, phases_ns: Nanoseconds, are_pure: npt.NDArray[np.bool_]) -> None:
        """Steps of one run."""
        num_steps, clean = len(phases_ns), run.clean
        if clean and self._device.is_asynchronous:
            # While something else was timed, the device may have worked on steps of this interval.
            first = 1 if self._throughput.num_steps == 0 else 0
            clean = bool(are_pure[first:].all())
        by_phase_ns = phases_ns.sum(axis=0).tolist()
        nonpadding = run.leave(num_steps)
        steps_s = sum(by_phase_ns) / 1e9
        self._throughput.add(steps_s, *run.amounts, num_steps=num_steps, clean=clean, nonpadding_of=nonpadding)
        self._row.add(by_phase_ns, None if run.flops is None else run.flops * num_steps)
        num_again = num_steps if run.is_begun else num_steps - 1  # the meter of FLOPs has had the first one
        run.is_begun = True
        if num_again:
            self._flops.add_again(run.flops, run.tokens, num_steps=num_again, clean=run.clean)

    def wait(self) -> float:
        """Wait for the device at the edge of an interval; the seconds that its work still took after the last step.

        A device that is still busy at the edge was so ever since the step ended. One that is not had finished somewhen
        between, so if that was long, the interval is none to be judged.
        """
        if self._throughput.num_steps == 0 and not self._runs:
            return 0.0
        with self._timer.edge:
            wait_s = self._device.synchronize()
        if not self._device.is_asynchronous:
            return wait_s
        since_s = (perf_counter_ns() - self._ended_ns) / 1e9
        self._hides_end = wait_s < _NO_WAIT_S and since_s > _LONG_GAP_S
        return since_s if wait_s >= _NO_WAIT_S else wait_s

    def close(self, wait_s: float) -> Interval | None:
        """End the interval, if it has a step, at the edge that was waited for; the times of all its steps are added."""
        self._is_open_clean = True
        if self._throughput.num_steps == 0:
            return None
        self._throughput.add_wait(wait_s)
        self._throughput.is_clean = self._throughput.is_clean and not self._hides_end
        end_ns = self._ended_ns + round(wait_s * 1e9)
        interval = self._throughput.close(self._timer.marks.since_first_step_s(end_ns))
        if interval is not None:
            self._row.add_interval(interval)
        return interval

    def row(self, newest_step_s: Callable[[int], Seconds | None] | None = None) -> MetricRow | None:
        """The row of metrics that is due with the step that has ended, if one is; its interval is closed.

        ``newest_step_s`` gives the durations of the newest steps.
        """
        if not self._is_due:
            return None
        return self._row.take(self._loop._batches_that_stepped, self._flops.peak_flops_per_s, newest_step_s)

    @property
    def last_step(self) -> int:
        """The last step that has ended, on the axis on which Lightning logs."""
        return max(0, int(self._loop._batches_that_stepped) - 1)

    def counted(self) -> Counted:
        """All that was counted until the last edge."""
        counted = self._throughput.counted(
            num_optimizer_steps=self._trainer.global_step - self._first_global_step,
            num_synchronizations=self._device.num_synchronizations,
            nonpadding_by=self._counter.nonpadding_by,
        )
        return replace(counted, in_all=self._totals.add(counted))

    def _begin_run(self, batch: Any, taken: Taken, clean: bool) -> None:
        if taken.amounts.tokens is None and not self._unknown_said:
            self._say_unknown(batch)
        run = _Run(taken, clean)
        run.flops = self._flops.add(batch, run.tokens, clean=clean)
        self._runs.append(run)

    def _is_clean(self, step: int) -> bool:
        """Whether the throughput of this step is the run's own."""
        return step > 0 and step >= self._plan.schedule.skip_first and self._plan.action(step) is Action.IDLE

    def _ends_epoch(self) -> bool:
        return self._device.is_asynchronous and bool(self._loop.batch_progress.is_last_batch)

    def _is_row_due(self, stride: int) -> bool:
        """Whether Lightning logs this step too: on its axis, which counts batches but those that only accumulate."""
        loop, every = self._loop, self._trainer.log_every_n_steps
        if every <= 0 or (loop._batches_that_stepped + 1) % every or loop._should_accumulate():
            return False
        self.num_rows += 1
        return self.num_rows % stride == 0

    def _say_unknown(self, batch: Any) -> None:
        self._unknown_said = True
        log.info(
            "PerfWatch can't tell the tokens of a batch of type %s; name their key or a function: "
            "PerfWatch(tokens='input_ids').",
            type(batch).__name__,
        )
