"""One fit under watch: wires timer, windows, throughput and run directory to the Trainer's hooks.

Owns the order of things in a fit. Decides nothing about bottlenecks and shows nothing.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.actions import checkpoint_keys
from lightning_perfwatch.live.batch import BatchCounter
from lightning_perfwatch.live.capture import Capture
from lightning_perfwatch.live.clock import Device, DeviceMarks
from lightning_perfwatch.live.hook_places import located
from lightning_perfwatch.live.loading import describe_loader, find_loader
from lightning_perfwatch.live.metrics import MetricRow, RowSums
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.ranks import RankPart
from lightning_perfwatch.live.rivals import another_profiler
from lightning_perfwatch.live.run_info import describe_run
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.settings import describe_settings
from lightning_perfwatch.live.steps import Kind, StepLog, epoch_starts, is_pure
from lightning_perfwatch.live.throughput import Throughput
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.live.windows import Windows
from lightning_perfwatch.measurements import PHASES, Counted, Overhead, RankSummary, Window
from lightning_perfwatch.report import Rates

log = logging.getLogger(__name__)


class FitWatch:
    """Watches one fit, from ``on_train_start`` to its end.

    ``is_disturbed`` is set as long as something of PerfWatch's own competes for the CPUs: such steps are not judged.

    Args:
        trainer: the Trainer; its profiler is replaced by a listener until :meth:`stop`.
        module: the LightningModule.
        own: the callback, so that its cost and its doubles are known.
        schedule: which steps are audited and profiled.
        tokens: how tokens are counted, see :class:`~lightning_perfwatch.live.batch.BatchCounter`.
        directory: where traces are written; None if this process records none.
        options: what a trace records.
    """

    def __init__(
        self,
        trainer: Any,
        module: Any,
        own: Any,
        *,
        schedule: Schedule,
        tokens: str | Callable[[Any], int] | None,
        directory: Path | None,
        options: TraceOptions,
    ) -> None:
        self._trainer = trainer
        self._module = module
        self._schedule = schedule
        self._notes: list[str] = []
        self._device = Device(trainer.strategy.root_device)
        make_event = self._device.event_maker()
        marks = None if make_event is None else DeviceMarks(make_event)
        loader = find_loader(trainer.train_dataloader)
        self._loader_info = describe_loader(loader)
        self._timer = PhaseTimer(
            trainer.profiler,
            own.state_key,
            checkpoint_keys(trainer.callbacks),
            marks,
            workers_start=self._loader_info is not None and bool(self._loader_info.num_workers),
        )
        self._steps = StepLog(on_device=marks is not None)
        self._counter = BatchCounter(tokens)
        self._throughput = Throughput()
        self._row = RowSums(trainer.world_size)
        self._step = 0
        self._epochs_seen = 0
        self._was_clean = False
        self.is_disturbed = False
        self._first_global_step = trainer.global_step
        self._windows = Windows(
            schedule,
            self._timer,
            loader,
            self._new_capture(directory, options, own),
            trial_steps=int(trainer.accumulate_grad_batches),
            rival=partial(another_profiler, trainer, own),
        )
        self._unknown_said = tokens is not None
        trainer.profiler = self._timer

    def _new_capture(self, directory: Path | None, options: TraceOptions, own: Any) -> Capture | None:
        trainer = self._trainer
        if directory is None:
            return None
        other = another_profiler(trainer, own)
        reason = other and f"{other} records this run, and two profilers at once lose each other's data"
        try:
            directory.mkdir(parents=True, exist_ok=True)  # rank 0 made it on its own machine only
        except OSError as error:
            reason = reason or f"{directory} can't be made here ({error})"
        if reason is not None:
            log.warning("PerfWatch: tracing is off: %s.", reason)
            self._notes.append(f"tracing is off: {reason}")
            return None
        return Capture(
            directory=directory,
            worker=f"rank{trainer.global_rank}",
            device_types=[self._device.type],
            options=options,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
        )

    def note(self, text: str) -> None:
        """Something about the measurement that the report should say."""
        self._notes.append(text)

    def step_started(self) -> None:
        """``on_train_batch_start``."""
        self._windows.step_started()

    def step_ended(self, batch: Any) -> StepResult:
        """``on_train_batch_end``: the step is over, the next one begins after this call."""
        parts = self._timer.end_step()
        kind = self._kind()
        row = self._steps.add(parts, kind)
        if self._timer.device is not None:
            self._timer.device.close_step(row if is_pure(parts) else None, _CALLBACKS)
            for measured, seconds in self._timer.device.read():
                self._steps.set_device(measured, seconds)
        window = self._windows.step_ended(self._step)  # before the user's function counts: it is no part of the step
        step_ns = sum(parts.phases_ns)
        samples, tokens = self._counter.count(batch)
        if tokens is None and not self._unknown_said:
            self._say_unknown(batch)
        clean = self._is_clean(self._step) and not self.is_disturbed
        if clean is not self._was_clean:
            self._close_interval()
        self._was_clean = clean
        self._throughput.add(step_ns / 1e9, samples, tokens, clean=clean)
        self._row.add(parts.phases_ns, samples, tokens)
        self._step += 1
        due = self._is_row_due()
        if due:
            self._close_interval()
        row_of_metrics = self._row.take(self._trainer.fit_loop.epoch_loop._batches_that_stepped) if due else None
        return StepResult(window, row_of_metrics)

    def outside_steps(self) -> AbstractContextManager[None]:
        """Within this context the time is PerfWatch's own and belongs to no step."""
        return self._timer.capture

    def validation_begins(self) -> Window | None:
        """``on_validation_start``; the window that is closed for it, if one is."""
        batches = self._trainer.num_val_batches
        return self._windows.validation_begins(sum(batches) if isinstance(batches, Sequence) else float(batches))

    def stop(self, reason: str | None = None) -> Window | None:
        """Training is over or broken off: give the Trainer its profiler back and end what runs; idempotent."""
        window = self.release(reason)
        if self._windows.is_waiting:
            first = self._schedule.window(self._schedule.skip_first + self._schedule.wait).start
            self.note(f"the window never ran: it begins with step {first} and the run ended after {self._step} steps")
        self._steps.add_outside(self._timer.end_step())
        self._close_interval()
        if self._timer.device is not None:
            for measured, seconds in self._timer.device.read():
                self._steps.set_device(measured, seconds)
        return window

    def release(self, reason: str | None = None) -> Window | None:
        """Give the Trainer its profiler back and leave none running; the window that was open, if one was."""
        self._timer.remove_from(self._trainer)
        return self._windows.finish(reason)

    def part(self) -> RankPart:
        """What this process contributes to the report of all ranks."""
        rates = Rates.of(self._counted())
        steps = self._steps.step_times()
        summary = RankSummary(
            rank=self._trainer.global_rank,
            host=socket.gethostname(),
            tokens_per_s=rates.tokens_per_s,
            samples_per_s=rates.samples_per_s,
            step_time_s=None if steps is None else steps.mean_step_s,
            data_wait_share=None if steps is None else steps.share("data_wait"),
        )
        return RankPart(summary, tuple(self._windows.done))

    def evidence(self, parts: Sequence[RankPart] = ()) -> Evidence:
        """All that is known now; ``parts`` are those of all ranks, once they are gathered."""
        trainer = self._trainer
        own_s, num_steps = self._steps.own_hooks(self._timer.own_slots)
        wall_s = self._steps.wall_s()
        notes = self._notes + self._windows.notes
        others = [window for part in parts for window in part.windows if window.rank != trainer.global_rank]
        known = Evidence(
            run=describe_run(trainer, self._module, self._device),
            steps=self._steps.step_times(),
            hooks=located(self._steps.hook_times(self._timer.meanings, self._timer.own_slots), trainer, self._module),
            loader=self._loader_info,
            load_probe=self._windows.load_probe,
            syncs=self._windows.syncs,
            epoch_starts=epoch_starts(self._timer.epoch_starts_ns, self._timer.num_epochs),
            counted=self._counted(),
            windows=(*self._windows.done, *others),
            overhead=Overhead(hooks_s=own_s, num_steps=num_steps, capture_s=wall_s["capture"]),
            ranks=tuple(part.summary for part in parts if part.summary is not None) if len(parts) > 1 else (),
            wall_s=wall_s,
            notes=tuple(notes),
            settings=describe_settings(trainer, self._module),
        )
        missing = {name: reason for name, reason in self._missing().items() if getattr(known, name) is None}
        return replace(known, missing=missing)

    def _missing(self) -> dict[str, str]:
        missing = {
            "syncs": f"the run ended after {self._step} steps, before a step was audited",
            "steps": f"{self._step} training steps are too few to judge a steady step",
        }
        if not self._windows.done:
            missing["trace"] = next(iter(self._notes + self._windows.notes), "this process records no trace")
        return missing

    def _counted(self) -> Counted:
        return self._throughput.counted(
            num_optimizer_steps=self._trainer.global_step - self._first_global_step,
            num_synchronizations=self._device.num_synchronizations,
        )

    def _kind(self) -> Kind:
        """How well the step that has just ended stands for the run."""
        epochs = self._timer.num_epochs
        begins_epoch, self._epochs_seen = epochs != self._epochs_seen, epochs
        if self._step > 0 and (self.is_disturbed or self._schedule.action(self._step) is not Action.IDLE):
            return Kind.DISTURBED
        if begins_epoch or self._step == 0:
            return Kind.EPOCH_START
        return Kind.EARLY if self._step < self._schedule.skip_first else Kind.STEADY

    def _is_clean(self, step: int) -> bool:
        """Whether the throughput of this step is the run's own."""
        schedule = self._schedule
        return step > 0 and step >= schedule.skip_first and schedule.action(step) is Action.IDLE

    def _close_interval(self) -> None:
        """Wait for the device at the edge of an interval, so that the interval holds all of its steps' work."""
        with self._timer.edge:
            wait_s = self._device.synchronize()
        self._throughput.add_wait(wait_s)
        self._throughput.close()

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


@dataclass(frozen=True)
class StepResult:
    """What a finished step brought: a window that closed with it, a row of metrics that is due."""

    window: Window | None = None
    row: MetricRow | None = None


_CALLBACKS = PHASES.index("callbacks")
