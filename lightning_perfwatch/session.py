"""One fit from its first hook to its report: joins what measures, what analyses and what shows.

Owns the order in which these are asked. Measures nothing itself and knows no rule.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import Any

from lightning_perfwatch.config import PerfWatchConfig
from lightning_perfwatch.live.analyst import Analyst
from lightning_perfwatch.live.fit import FitWatch
from lightning_perfwatch.live.metrics import result_metrics, window_metrics
from lightning_perfwatch.live.place import Place
from lightning_perfwatch.live.ranks import RankPart
from lightning_perfwatch.live.startup import Startup
from lightning_perfwatch.live.totals import RunTotals
from lightning_perfwatch.measurements import Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import screen, terminal
from lightning_perfwatch.reporters.loggers import LoggerSink
from lightning_perfwatch.run_directory import RunDirectory

log = logging.getLogger(__name__)


class Session:
    """A watched fit; made in ``on_train_start`` on every rank and in use until :meth:`conclude`.

    ``part`` is what this process contributes to the report, ``parts`` are those of all processes once gathered.
    """

    def __init__(
        self,
        trainer: Any,
        module: Any,
        own: Any,
        config: PerfWatchConfig,
        place: Place,
        totals: RunTotals | None = None,
        startup: Startup | None = None,
    ) -> None:
        self._trainer = trainer
        self._is_first = trainer.global_rank == 0
        self._quiet = config.quiet or not self._is_first
        self._stopped = False
        self._is_broken_off = False
        self._thread = threading.get_ident()
        self._complained = False
        self._waiting_said = False
        self._was_disturbed = False
        self._is_behind = False  # a window has closed that no analysis has read
        self.part = RankPart()
        self.parts: list[RankPart] = []
        if place.reason is not None and self._is_first:
            log.warning("PerfWatch writes no trace and no report: %s.", place.reason)
        directory = None if place.path is None or not self._is_first else RunDirectory(place.path)
        self._analyst = Analyst(directory, config.child_arguments(), config.rules, config.ignore)
        self._sink = LoggerSink(trainer.loggers, place.path) if self._is_first else None
        if self._sink is not None:
            self._sink.open()
        self._fit = FitWatch(
            trainer,
            module,
            own,
            schedule=config.schedule,
            tokens=config.tokens,
            directory=place.path if config.records_on(trainer.global_rank) else None,
            options=config.trace,
            triggers=config.triggers,
            answers=not any(config.records_on(rank) for rank in range(trainer.global_rank)),
            flops_per_batch=config.flops_per_batch,
            peak_tflops=config.peak_tflops,
            max_overhead_share=config.max_overhead_share,
            totals=totals,
            before_s=None if startup is None else startup.end(),
        )
        if place.reason is not None:
            self._fit.note(f"no trace and no report are written: {place.reason}")

    def is_for(self, trainer: Any) -> bool:
        """Whether this is the Trainer and the thread of the session.

        A fit inside of this one has its own steps, and a profiler that is stopped on another thread loses its events
        and runs on.
        """
        if trainer is self._trainer and threading.get_ident() == self._thread:
            return True
        if not self._complained:
            self._complained = True
            log.warning("PerfWatch watches one fit at a time: it ignores hooks of another Trainer or another thread.")
        return False

    @property
    def watches_steps(self) -> bool:
        """Whether the step that begins is watched closely, and so has to be told of."""
        return self._fit.watches_steps

    def step_started(self) -> None:
        """A training step begins."""
        self._fit.step_started()

    def step_ended(self, batch: Any) -> None:
        """A training step is over."""
        competes = self._analyst.competes
        self._fit.is_disturbed = self._was_disturbed or competes
        window, row = self._fit.step_ended(batch)
        if window is not None or row is not None:
            self._analyze(window)
            if row is not None and self._sink is not None:
                finished = self._analyst.finished()
                of_window = {} if finished is None else window_metrics(finished)
                self._sink.log({**row.metrics, **of_window}, row.step)
                self._show_window(finished)
                self._catch_up()
            competes = self._analyst.competes
        self._was_disturbed = competes  # a child may be done within the next step

    def validation_begins(self) -> None:
        """Validation begins."""
        self._analyze(self._fit.validation_begins())

    def checkpoint_begins(self) -> None:
        """A checkpoint is about to be saved."""
        self._fit.checkpoint_begins()

    def stop(self, reason: str | None = None) -> None:
        """Training is over, or broken off for this reason; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        self._is_broken_off = reason is not None
        self._fit.stop(reason)
        self.part = self._fit.part()

    def conclude(self, longest_s: float | None = None) -> Report:
        """The report; waits at most ``longest_s`` seconds for the analysis, as its traces' size allows if None."""
        return self._analyst.conclude(self._fit.evidence(self.parts), longest_s, self._say_waiting)

    def show(self, report: Report) -> None:
        """Hand ``report`` to the loggers and to the terminal, on the first rank."""
        if not self._quiet and sys.stdout is not None:
            with suppress(OSError, ValueError):  # closed, or a pipe whose reader has gone
                terminal.show(report, sys.stdout, self._trainer.progress_bar_callback)
        if self._sink is not None:
            self._sink.conclude(
                report,
                window_metrics(report),
                result_metrics(report),
                self._fit.last_step,
                is_complete=not self._is_broken_off,
            )

    def abandon(self, reason: str) -> None:
        """After a failure of PerfWatch itself: leave nothing running; :meth:`conclude` reports what there is."""
        self._fit.note(reason)
        with suppress(Exception):  # one failure has been said already; the other parts are still to be ended
            self.stop(reason)
        with suppress(Exception):
            self._fit.release()

    def _analyze(self, window: Window | None) -> None:
        """Have a window that has just closed analysed while training goes on."""
        if window is not None and window.trace is not None and self._is_first:
            self._is_behind = True
            self._catch_up()

    def _catch_up(self) -> None:
        """Begin an analysis that had to wait for the one before."""
        if self._is_behind and self._analyst.is_free:
            self._is_behind = False
            with self._fit.outside_steps():
                self._analyst.begin(self._fit.evidence())

    def _show_window(self, report: Report | None) -> None:
        if report is not None and not self._quiet:
            self._say(terminal.window_line(report))

    def _say_waiting(self) -> None:
        if not self._quiet and not self._waiting_said:
            self._waiting_said = True
            self._say("PerfWatch reads the trace; the report follows.")

    def _say(self, line: str) -> None:
        """One line that leaves a progress bar whole; nothing where nothing can be shown."""
        try:
            screen.say(line, sys.stdout, self._trainer.progress_bar_callback)
        except Exception as error:  # noqa: BLE001 - a user's progress bar may fail in any way
            log.debug("PerfWatch can't show its line: %s", type(error).__name__)
