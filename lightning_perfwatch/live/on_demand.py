"""Opens windows beside the schedule: on request, on a signal, and when the step drifts.

Owns when to look for requests and what is answered. Records nothing and makes no collective call: each rank that
records decides for itself.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.live.drift import DriftWatch
from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.signal_watch import SignalWatch
from lightning_perfwatch.live.triggers import Triggers
from lightning_perfwatch.live.windows import Windows
from lightning_perfwatch.measurements import REQUESTED
from lightning_perfwatch.window_requests import Listening, WindowRequests

LOOK_EVERY_NS = 1_000_000_000
LOOK_EVERY_STEPS = 10


class OnDemand:
    """The windows of one fit that the schedule does not have.

    One process looks for requests once a second. Several look at every tenth step, so that they see a request at the
    same one and their windows hold the same steps.

    Args:
        triggers: what opens a window.
        directory: the run directory; None where this process records nothing, and then it does not look.
        windows: plans and records them.
        followers: are told of each new plan.
        num_ranks: how many processes train.
        answers: whether this process removes requests and says what comes of them; one rank does.
    """

    def __init__(
        self,
        triggers: Triggers,
        directory: Path | None,
        windows: Windows,
        followers: Sequence[Callable[[Plan], None]],
        num_ranks: int = 1,
        *,
        answers: bool = True,
    ) -> None:
        self._windows = windows
        self._followers = followers
        self._by_steps = num_ranks > 1
        self._answers = answers
        self._signalled = False
        self._taken = False
        self._is_over = directory is None
        self._drift = DriftWatch(triggers.drift_factor, triggers.drift_s, triggers.max_drifts)
        self._requests = WindowRequests(directory) if triggers.on_request and directory is not None else None
        self._signal = None if triggers.signal is None or self._is_over else SignalWatch(triggers.signal, self._note)
        self._signal_name = triggers.signal
        self._known: tuple[Plan, int, str | None] | None = None
        self.due_ns = sys.maxsize if self._requests is None else 0
        every = "at every tenth step" if self._by_steps else "once a second"
        self._said = self._answered = Listening(os.getpid(), socket.gethostname(), every, off=windows.off_reason)
        if self._signal is not None and self._signal.reason is not None:
            windows.notes.append(f"{triggers.signal} asks for no window: {self._signal.reason}")
        if self._requests is not None and answers:
            self._requests.end()  # what an earlier run in this directory has left
            self._requests.say(self._said)

    def look(self, step: int, now_ns: int) -> None:
        """Look for a request, after the step number ``step``; called after steps that end at ``due_ns`` or later."""
        # set before the flag is read: a signal that comes in between is due again with the next step
        self.due_ns = sys.maxsize if self._requests is None else 0 if self._by_steps else now_ns + LOOK_EVERY_NS
        signalled, self._signalled = self._signalled, False
        if self._requests is not None and (not self._by_steps or step % LOOK_EVERY_STEPS == 0):
            self._look(self._requests, step)
        if signalled:
            self._open(step + 2, f"{REQUESTED} with {self._signal_name}")

    def _look(self, requests: WindowRequests, step: int) -> None:
        if self._taken:
            self._take(requests)
        if requests.is_new():
            self._taken = True
            self._open(step + 2, f"{REQUESTED} with perfwatch trigger")
            if not self._by_steps:
                self._take(requests)
        known = (self._windows.plan, len(self._windows.done), self._windows.off_reason)
        if known != self._known and self._answers:
            self._known = known
            self._answer(requests)

    def interval_ended(self, step: int, interval: Interval | None) -> None:
        """An interval has closed before the step number ``step``, which may have its plan already."""
        if interval is None or self._is_over or self._windows.is_off or self._windows.has_demand(step):
            return
        drift = self._drift.add(interval)
        if drift is not None:
            self._open(step + 1, drift)

    def end(self) -> None:
        """Training is over: take no more requests and leave no trace of having taken any; idempotent."""
        if self._signal is not None:
            self._signal.stop()
        if self._requests is not None and self._answers and not self._is_over:
            self._requests.end()
        self._is_over = True

    def _note(self) -> None:
        """The signal has come; this runs between any two instructions."""
        self._signalled = True
        self.due_ns = 0

    def _take(self, requests: WindowRequests) -> None:
        """Remove a request that all ranks have seen."""
        self._taken = False
        if self._answers:
            requests.take()

    def _open(self, step: int, why: str) -> None:
        """Plan a window from ``step`` on, unless one is about to come that answers this request too."""
        if self._windows.is_off:
            self._windows.notes.append(f"a window was {why} before step {step}, and tracing was off")
        elif not self._windows.has_demand(step - 1):
            plan = self._windows.open(step, why)
            for follow in self._followers:
                follow(plan)

    def _answer(self, requests: WindowRequests) -> None:
        planned = self._windows.plan.on_demand
        said = replace(self._said, off=self._windows.off_reason)
        if planned:
            closed = [window for window in self._windows.done if window.first_step == planned.start]
            said = replace(
                said,
                first_step=planned.start,
                num_steps=closed[-1].num_steps if closed else len(planned),
                is_closed=bool(closed),
                trace=closed[-1].trace if closed else None,
            )
        if said != self._answered:
            self._answered = said
            requests.say(said)
