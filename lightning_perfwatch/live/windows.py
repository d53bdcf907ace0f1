"""Carries out the plan: audits, trials and windows, one step at a time.

Owns what happens between two steps and the one warning when tracing has to be switched off. Knows no rule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.capture import Capture, CaptureError
from lightning_perfwatch.live.loading import LoadWatch
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.rivals import profiler_on_thread
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.step_count import StepCount
from lightning_perfwatch.live.syncs import SyncAudit
from lightning_perfwatch.measurements import BY_SCHEDULE, REQUESTED, LoadProbe, Window
from lightning_perfwatch.sync_sites import SyncSites

log = logging.getLogger(__name__)


class Windows:
    """The audits and windows of one fit.

    Args:
        schedule: when to do what.
        timer: is told to watch fetches, and keeps the profiler's own time out of the steps.
        loader: the training data loader, for the audit.
        capture: records; None where this process is not to record.
        trial_steps: how many warmup steps the trial takes, so that it holds an optimizer step.
        rival: who else profiles, in words; asked before each window.
        count: counts the FLOPs of the last audited step; None where this process is not to.
        budget: is asked before each window.
    """

    def __init__(
        self,
        schedule: Schedule,
        timer: PhaseTimer,
        loader: Any,
        capture: Capture | None,
        trial_steps: int = 1,
        rival: Callable[[], str | None] = profiler_on_thread,
        count: StepCount | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.plan = Plan(schedule)
        self._timer = timer
        self._capture = capture
        self._trial_steps = min(trial_steps, schedule.warmup)
        self._rival = rival
        self._count = count
        self._counting = False
        if count is not None and schedule.audit[-1] == 0:  # tracing and sharding try operators on fake tensors there
            count.skip("the one audited step is the run's first, in which much is done only once")
        self._budget = budget or Budget(None)
        self._left_out: range | None = None
        self._audit = SyncAudit()
        self._load_watch = LoadWatch(loader)
        self._auditing = False
        self._closing: str | None = None
        self._planned = range(0)
        self._opened_by = BY_SCHEDULE
        self.off_reason: str | None = None
        self.idle_until = 0  # the step with whose begin there is something to do
        self.is_busy = False
        self.done: list[Window] = []
        self.notes: list[str] = []
        self.before_step(0)

    @property
    def syncs(self) -> SyncSites | None:
        """What the audited steps showed."""
        return self._audit.sites()

    @property
    def load_probe(self) -> LoadProbe | None:
        """Where an audited batch's loading time went."""
        return self._load_watch.probe()

    @property
    def is_waiting(self) -> bool:
        """Whether the first window is still to come."""
        return self._capture is not None and not self.done

    # Called by the timer

    def fetch_begins(self) -> None:
        """A training step begins with the request for its batch."""
        self._audit.end_step()  # what callbacks and Lightning's logging did after the batch belongs to the last step
        if self._auditing:
            self._load_watch.begin()
        elif self._capture is not None:
            self._capture.begin_step()

    def fetch_ends(self) -> None:
        """The batch is there."""
        if self._auditing:
            self._load_watch.end()

    # Called by the run

    def step_started(self) -> None:
        """The Trainer's hook before a step; the loader may not have been asked, since the step does so itself."""
        self._audit.end_step()
        if self._auditing:
            if self._counting and self._count is not None:
                with self._timer.capture:
                    self._count.begin_step()
            self._audit.begin_step()
        elif self._capture is not None:
            self._capture.begin_step()

    def step_ended(self, step: int) -> Window | None:
        """The step number ``step`` is complete; the window that closes with it, if one does."""
        if step + 1 < self.idle_until:
            return None
        if self._counting and self._count is not None:
            with self._timer.capture:
                self._count.end_step()
        closed = None
        if self._capture is not None and self._capture.gave_way:
            self.switch_off("tracing is off: another profiler was started in a step, and it has that step to itself")
        elif self._capture is not None and self._capture.is_recording:
            self._capture.end_step()
            if self._capture.is_full:
                closed = self._close(self._closing)
        self.before_step(step + 1)
        return closed

    def before_step(self, step: int) -> None:
        """Get ready for the step number ``step``."""
        action = self.plan.action(step)
        self._auditing = action is Action.AUDIT
        self._counting = self._auditing and 0 < step == self.plan.schedule.audit[-1]
        if self._capture is not None and action in (Action.WARMUP, Action.ACTIVE):
            try:
                with self._timer.capture:
                    self._prepare(self._capture, step, self.plan.window(step))
            except CaptureError as error:
                self.switch_off(f"tracing is off: {error}")
        is_recording = self._capture is not None and self._capture.is_recording
        self.is_busy = self._auditing or self._audit.is_open or is_recording
        self._timer.fetch_observer = self if self.is_busy else None
        self.idle_until = 0 if self.is_busy or action is not Action.IDLE else self.plan.next_change(step)

    def _prepare(self, capture: Capture, step: int, window: range) -> None:
        begins = step == window.start - self._trial_steps
        if begins and not self._budget.begins_window(self._timer.capture_s, is_asked=self._is_asked(window)):
            self._left_out = window
            if window == self.plan.on_demand:
                self.notes.append(f"{self._opened_by} before step {step}, and no window had room in max_overhead_share")
        if window == self._left_out:
            return
        if begins:
            other = self._rival()
            if other is not None:
                raise CaptureError(f"{other} would lose its data")
            capture.begin_trial()
        elif step == window.start:
            capture.end_trial(self._trial_steps)
            self._planned = window
            self._closing = capture.start(window)
            self._timer.window_begins()
            if self._closing is not None:
                self._note(self._closing)

    def open(self, step: int, opened_by: str) -> Plan:
        """Record one more window, from step number ``step`` on or as soon as the schedule leaves room; the new plan."""
        self.plan = self.plan.with_window(step)
        self._opened_by = opened_by
        self.idle_until = 0
        return self.plan

    def has_demand(self, step: int) -> bool:
        """Whether a window beside the schedule is open or still to come after the step number ``step``."""
        return step < self.plan.on_demand.stop and not self.is_off

    @property
    def is_off(self) -> bool:
        """Whether nothing is recorded any more."""
        return self._capture is None

    def _is_asked(self, window: range) -> bool:
        """Whether the user wants ``window`` whatever it costs: not a repeated one, and none that nobody knows of."""
        if window == self.plan.on_demand:
            return self._opened_by.startswith(REQUESTED)
        return self.plan.is_first(window)

    def _opener(self) -> str:
        return self._opened_by if self._planned == self.plan.on_demand else BY_SCHEDULE

    def validation_begins(self, num_batches: float) -> Window | None:
        """Validation inside a window is recorded outside of its steps; a window without room for it is closed.

        A batch of validation is taken for half a step, since it has no backward pass.
        """
        self._audit.end_step()
        capture = self._capture
        if capture is None or not capture.is_recording or capture.fits(num_batches / 2):
            return None
        reason = f"the window closes early: {num_batches:g} batches of validation have no room in max_trace_mb"
        self._note(reason)
        return self._close(reason)

    def finish(self, reason: str | None = None) -> Window | None:
        """The training is over, whatever its state: end everything; the partial window, if one was open."""
        self._timer.fetch_observer = None
        self._audit.end_step()
        if self._count is not None:
            self._count.discard()
        self._load_watch.end()
        if self._capture is None or not self._capture.is_on:
            return None
        if not self._capture.is_recording:
            self._capture.discard()
            return None
        window = self._stop(self._capture, reason or "the run ended inside the window")
        if window.trace is None and window.reason is not None:
            self.notes.append(f"there is no trace: {window.reason}")
        return window

    def switch_off(self, reason: str) -> None:
        """Record no more, for this reason."""
        self.off_reason = reason
        self._note(reason)
        self._timer.window_ends()
        if self._capture is not None:
            self._capture.discard()
        self._capture = None

    def _close(self, reason: str | None) -> Window:
        assert self._capture is not None
        with self._timer.capture:
            window = self._stop(self._capture, reason)
        if window.trace is None and window.reason is not None:
            self.switch_off(f"tracing is off: {window.reason}")
        return window

    def _stop(self, capture: Capture, reason: str | None) -> Window:
        window = replace(capture.stop(self._planned, reason), opened_by=self._opener())
        self._timer.window_ends()
        self.done.append(window)
        return window

    def _note(self, text: str) -> None:
        self.notes.append(text)
        log.warning("PerfWatch: %s.", text)
