"""One fit under watch: wires timer, windows, throughput and run directory to the Trainer's hooks.

Owns the order of things in a fit. Decides nothing about bottlenecks and shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.actions import checkpoint_keys
from lightning_perfwatch.live.batch_counter import BatchCounter
from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.clock import Device, DeviceMarks
from lightning_perfwatch.live.compile_watch import CompileWatch
from lightning_perfwatch.live.flop_meter import FlopMeter, UserFlops
from lightning_perfwatch.live.gc_watch import GcWatch
from lightning_perfwatch.live.hook_places import located
from lightning_perfwatch.live.intake import StepIntake
from lightning_perfwatch.live.listener import Listener
from lightning_perfwatch.live.loading import describe_loader, find_loader
from lightning_perfwatch.live.meter import Meter
from lightning_perfwatch.live.metrics import MetricRow
from lightning_perfwatch.live.muting import Muting
from lightning_perfwatch.live.on_demand import OnDemand
from lightning_perfwatch.live.own_cost import OwnCost
from lightning_perfwatch.live.pauses import describe_pauses
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.ranks import RankPart
from lightning_perfwatch.live.resources import ResourceWatch
from lightning_perfwatch.live.rivals import another_profiler
from lightning_perfwatch.live.run_info import describe_run
from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.settings import describe_settings
from lightning_perfwatch.live.silent_hooks import silent_actions
from lightning_perfwatch.live.step_count import StepCount
from lightning_perfwatch.live.step_judge import StepJudge
from lightning_perfwatch.live.steps import StepLog, epoch_starts
from lightning_perfwatch.live.totals import RunTotals
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.live.tracing import capture_for
from lightning_perfwatch.live.triggers import Triggers
from lightning_perfwatch.live.windows import Windows
from lightning_perfwatch.measurements import Window


class FitWatch:
    """Watches one fit, from ``on_train_start`` to its end.

    ``is_disturbed`` is set as long as something of PerfWatch's own competes for the CPUs: such steps are not judged.
    ``last_step`` is the last step on the axis on which Lightning logs, once :meth:`stop` was called.

    Args:
        trainer: the Trainer; its profiler is replaced by a listener until :meth:`stop`.
        module: the LightningModule.
        own: the callback, so that its cost and its doubles are known.
        schedule: which steps are audited and profiled.
        tokens: how tokens are counted, see :class:`~lightning_perfwatch.live.batch_counter.BatchCounter`.
        directory: where traces are written; None if this process records none.
        options: what a trace records.
        triggers, answers: see :class:`~lightning_perfwatch.live.on_demand.OnDemand`.
        flops_per_batch, peak_tflops: see :class:`~lightning_perfwatch.live.flop_meter.FlopMeter`.
        totals: what earlier sessions of this training have counted.
        before_s: seconds of wall clock that went by before the first step, by name.
        max_overhead_share: see :class:`~lightning_perfwatch.live.budget.Budget`.
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
        triggers: Triggers,
        answers: bool,
        flops_per_batch: UserFlops | None = None,
        peak_tflops: float | None = None,
        max_overhead_share: float | None = None,
        totals: RunTotals | None = None,
        before_s: Mapping[str, float] | None = None,
    ) -> None:
        self._trainer = trainer
        self._module = module
        self._schedule = schedule
        self._notes: list[str] = []
        self._device = Device(trainer.strategy.root_device)
        make_event = self._device.event_maker()
        marks = None if make_event is None else DeviceMarks(make_event)
        self._marks = marks
        self._budget = Budget(max_overhead_share)
        loader = find_loader(trainer.train_dataloader)
        self._loader_info = describe_loader(loader)
        new_timer = partial(
            PhaseTimer, own.state_key, checkpoint_keys(trainer.callbacks), silent=silent_actions(trainer, module)
        )
        self._cost = OwnCost(new_timer)
        self._timer = new_timer(
            device=marks,
            workers_start=self._loader_info is not None and bool(self._loader_info.num_workers),
        )
        self._steps = StepLog(on_device=marks is not None)
        self._before_s = dict(before_s or {})
        self._after_s = 0.0
        self._step = 0
        self.last_step = 0
        self.is_disturbed = False
        rival = partial(another_profiler, trainer, own)
        count = StepCount([self._device.type], rival) if trainer.global_rank == 0 else None
        self._flops = FlopMeter.of_run(trainer, module, self._device, flops_per_batch, peak_tflops, count)
        self._meter = Meter(
            trainer,
            self._device,
            self._timer,
            schedule,
            BatchCounter(tokens, trainer.train_dataloader),
            totals or RunTotals(),
            self._flops,
        )
        capture, reason = capture_for(trainer, own, directory, options, self._device.type)
        self._windows = Windows(
            schedule,
            self._timer,
            loader,
            capture,
            trial_steps=int(trainer.accumulate_grad_batches),
            rival=rival,
            count=self._flops.count,
            budget=self._budget,
        )
        if reason is not None:
            self._windows.switch_off(f"tracing is off: {reason}")
        judge = StepJudge(schedule)
        followers = (judge.replan, self._meter.replan)
        self._on_demand = OnDemand(
            triggers, directory, self._windows, followers, int(trainer.world_size), answers=answers
        )
        self._resources = ResourceWatch(trainer)
        self._compilations = CompileWatch()
        self._gc = GcWatch()
        self._gc.start()
        self._intake = StepIntake(
            self._timer, marks, self._budget, self._steps, self._meter, judge, self._gc, self._compilations
        )
        self._listener = Listener(trainer.profiler, self._timer)
        self._muting = Muting(trainer, own)
        self._muting.hear_starts(self._windows.is_busy)
        trainer.profiler = self._listener

    def note(self, text: str) -> None:
        """Something about the measurement that the report should say."""
        self._notes.append(text)

    @property
    def watches_steps(self) -> bool:
        """Whether an audit or a window wants to hear of a step's start."""
        return self._windows.is_busy

    def step_started(self) -> None:
        """``on_train_batch_start``."""
        self._windows.step_started()

    def step_ended(self, batch: Any) -> tuple[Window | None, MetricRow | None]:
        """``on_train_batch_end``: what the step brought, a window that closed with it and a row that is due."""
        step, timer = self._step, self._timer
        timer.end_step()
        if self._marks is not None:
            timer.end_step_on_device(step, self._budget.stride)
        self._step = step + 1
        is_due = timer.watch.last_ns >= self._on_demand.due_ns
        if not is_due and self._intake.takes_quietly(step, batch, is_disturbed=self.is_disturbed):
            return None, None
        kind = self._intake.judge(step, is_disturbed=self.is_disturbed, is_recorded=self._windows.is_busy)
        if step < _NUM_COUNTED:
            self._cost.note_actions(self._listener, step)
        window = self._windows.step_ended(step)  # before the user's function counts: it is no part of the step
        self._muting.hear_starts(self._windows.is_busy)
        ends_interval = self._meter.step_ended(
            step, batch, is_disturbed=self.is_disturbed, row_stride=self._budget.stride
        )
        self._intake.add(kind)
        if ends_interval:
            self._close_interval()
        elif self._intake.is_full:
            self._intake.take_up()
        if is_due:
            self._on_demand.look(step, timer.watch.last_ns)
        row = self._meter.row(self._steps.newest_step_s)
        if row is not None and self._meter.num_rows <= 2:
            self._budget.start_over()  # the first row opens the loggers, which is no cost of every row
        if step >= _NUM_COUNTED:
            self._intake.expect(step, self._windows.idle_until)
        return window, row

    def _close_interval(self) -> None:
        """End the interval with the steps that have ended."""
        wait_s = self._meter.wait()
        self._intake.take_up()
        interval = self._meter.close(wait_s)
        self._resources.edge(interval)
        self._on_demand.interval_ended(self._step, interval)

    def outside_steps(self) -> AbstractContextManager[None]:
        """Within this context the time is PerfWatch's own and belongs to no step."""
        return self._timer.capture

    def validation_begins(self) -> Window | None:
        """``on_validation_start``; the window that is closed for it, if one is."""
        self._close_interval()
        batches = self._trainer.num_val_batches
        return self._windows.validation_begins(sum(batches) if isinstance(batches, Sequence) else float(batches))

    def checkpoint_begins(self) -> None:
        """A checkpoint is about to be saved: what was counted until now goes into it."""
        self._close_interval()
        self._meter.counted()

    def stop(self, reason: str | None = None) -> Window | None:
        """Training is over or broken off: give the Trainer its profiler back and end what runs; idempotent."""
        window = self.release(reason)
        if self._windows.is_waiting:
            first = self._schedule.window(self._schedule.skip_first + self._schedule.wait).start
            self.note(f"the window never ran: it begins with step {first} and the run ended after {self._step} steps")
        self._close_interval()
        self.last_step = self._meter.last_step
        self._timer.end_step()
        rest = self._timer.take()
        self._steps.add_outside(rest)
        self._after_s += float(rest.phases_ns.sum()) / 1e9
        self._cost.rehearse(self._listener)
        return window

    def release(self, reason: str | None = None) -> Window | None:
        """Give the Trainer its profiler back and leave none running; the window that was open, if one was."""
        self._muting.end()
        self._listener.remove_from(self._trainer)
        self._gc.stop()
        self._on_demand.end()
        return self._windows.finish(reason)

    def part(self) -> RankPart:
        """What this process contributes to the report of all ranks."""
        return RankPart.of(
            self._trainer.global_rank, self._meter.counted(), self._steps.step_times(), self._windows.done
        )

    def evidence(self, parts: Sequence[RankPart] = ()) -> Evidence:
        """All that is known now; ``parts`` are those of all ranks, once they are gathered."""
        self._intake.take_up()
        trainer, steps = self._trainer, self._steps.step_times()
        notes = self._notes + self._windows.notes + self._flops.notes() + self._budget.notes()
        others = [window for part in parts for window in part.windows if window.rank != trainer.global_rank]
        known = Evidence(
            run=describe_run(trainer, self._module, self._device),
            steps=steps,
            hooks=located(self._steps.hook_times(self._timer.meanings, self._timer.own_slots), trainer, self._module),
            loader=self._loader_info,
            load_probe=self._windows.load_probe,
            syncs=self._windows.syncs,
            epoch_starts=epoch_starts(self._timer.epoch_starts_ns, self._timer.num_epochs),
            counted=self._meter.counted(),
            flops=self._flops.flops(),
            windows=(*self._windows.done, *others),
            overhead=self._cost.overhead(self._steps, self._timer, self._windows.done, self._budget),
            ranks=tuple(part.summary for part in parts if part.summary is not None) if len(parts) > 1 else (),
            wall_s={**self._before_s, **self._steps.wall_s(), "other": self._after_s},
            pauses=describe_pauses(trainer, self._timer),
            marks=self._timer.marks.all(),
            gc=None if steps is None else self._gc.pauses(steps.mean_step_s),
            compilations=self._compilations.compilations(self._steps.computing_s),
            notes=tuple(notes),
            settings=describe_settings(trainer, self._module),
            resources=self._resources.resources(),
        )
        return replace(known, missing={name: why for name, why in self._missing() if getattr(known, name) is None})

    def _missing(self) -> Iterator[tuple[str, str]]:
        yield "syncs", f"the run ended after {self._step} steps, before a step was audited"
        yield "steps", f"{self._step} training steps are too few to judge a steady step"
        if not self._windows.done:
            yield "trace", next(iter(self._notes + self._windows.notes), "this process records no trace")


_NUM_COUNTED = 3
