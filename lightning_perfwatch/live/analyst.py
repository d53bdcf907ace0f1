"""Turns what a fit has left in its run directory into reports, in the background as long as training goes on.

Owns which analysis runs when, and what is reported when one fails. Shows nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.analysis import Analysis, AnalysisError, longest_wait_s
from lightning_perfwatch.measurements import Overhead, Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import RunDirectory

log = logging.getLogger(__name__)

_LEAST_LEFT_S = 2.0  # without a trace to read a child is done in half a second


class Analyst:
    """Analyses one fit.

    Args:
        directory: None where nothing can be written, and then no trace is read.
        arguments: what the child process is told of the rules; None if it does not know one of them, since it was
            made outside of this package: then they are asked in this process when training has ended.
        rules: the rules to ask, None for all.
        ignore: ids of rules that stay silent.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        arguments: list[str] | None,
        rules: Sequence[Rule] | None,
        ignore: Sequence[str],
    ) -> None:
        self._directory = directory
        self._arguments = arguments
        self._rules = rules
        self._ignore = ignore
        self._running: Analysis | None = None
        self._complained = False
        self._done: Overhead | None = None  # of the last report, with what all analyses until then have cost

    @property
    def competes(self) -> bool:
        """Whether a child is at work that takes a notable part of the CPUs from the training; never waits."""
        return self._running is not None and self._running.competes

    @property
    def is_free(self) -> bool:
        """Whether :meth:`begin` would begin, since the analysis before it has been handed over."""
        return self._running is None

    def begin(self, evidence: Evidence) -> None:
        """Analyse a window that has just closed, in the background."""
        if self._directory is not None and self._arguments is not None and self._running is None:
            self._running = self._start(self._directory, self._arguments, evidence)

    def finished(self) -> Report | None:
        """The report of a background analysis that is done by now; never waits."""
        if self._running is None or self._running.is_running:
            return None
        running, self._running = self._running, None
        return self._result(running, 0.0)

    def conclude(
        self, evidence: Evidence, longest_s: float | None = None, on_wait: Callable[[], None] | None = None
    ) -> Report:
        """The final report, waiting at most ``longest_s`` seconds in all, by the traces' size if None.

        ``on_wait`` is called once if it takes longer than a second. Whatever fails on the way, the report holds all
        that was measured in this process.
        """
        bound_s = longest_wait_s(_size_mb(evidence.windows)) if longest_s is None else longest_s
        end_s = time.monotonic() + bound_s
        if self._running is not None:
            running, self._running = self._running, None
            self._result(running, bound_s, on_wait)
        if self._directory is None:
            return self._without_trace(evidence, None)
        if self._arguments is None:
            return self._in_this_process(self._directory, evidence)
        analysis = self._start(self._directory, self._arguments, evidence)
        left_s = max(_LEAST_LEFT_S, end_s - time.monotonic())
        report = None if analysis is None else self._result(analysis, left_s, on_wait)
        return self._without_trace(evidence, self._directory) if report is None else report

    def end(self) -> None:
        """Leave nothing running."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _start(self, directory: RunDirectory, arguments: list[str], evidence: Evidence) -> Analysis | None:
        if self._done is not None and evidence.overhead is not None:
            cpu_s, wall_s = self._done.analysis_cpu_s, self._done.analysis_wall_s
            evidence = replace(
                evidence, overhead=replace(evidence.overhead, analysis_cpu_s=cpu_s, analysis_wall_s=wall_s)
            )
        try:
            directory.write_evidence(evidence)
            return Analysis(directory, arguments)
        except (OSError, AnalysisError) as error:
            self._complain(f"the trace is not analysed: {error}")
            return None

    def _result(self, analysis: Analysis, longest_s: float, on_wait: Callable[[], None] | None = None) -> Report | None:
        try:
            report = analysis.result(longest_s, on_wait)
            self._done = report.overhead or self._done
            return report
        except AnalysisError as error:
            where = "" if self._directory is None else f"; to try again: perfwatch analyze {self._directory.path}"
            self._complain(f"the analysis failed: {error}{where}")
            return None

    def _in_this_process(self, directory: RunDirectory, evidence: Evidence) -> Report:
        try:
            directory.write_evidence(evidence)
            return directory.analyze(self._rules, self._ignore)
        except (OSError, ValueError) as error:
            self._complain(f"the analysis failed: {error}")
            return self._without_trace(evidence, directory)

    def _without_trace(self, evidence: Evidence, directory: RunDirectory | None) -> Report:
        missing = {"trace": "its analysis failed", **evidence.missing}
        evidence = replace(evidence, missing=missing)
        diagnosis = diagnose(evidence, self._rules, self._ignore)
        report = Report.of(evidence, diagnosis, None if directory is None else str(directory.path))
        if directory is not None:
            with suppress(OSError):
                directory.write_report(report)
        return report

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            log.warning("PerfWatch: %s.", text)


def _size_mb(windows: Iterable[Window]) -> float:
    return sum(window.size_mb or 0.0 for window in windows)
