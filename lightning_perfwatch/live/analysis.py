"""Has the run directory analysed in a child process of low priority, without torch, while training goes on.

Owns the child: it is started, looked after and ended here. A child that fails costs its result and nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from lightning_perfwatch.processes import child_environment
from lightning_perfwatch.report import Report
from lightning_perfwatch.run_directory import RunDirectory

_LEAST_WAIT_S = 30.0
_SHORT_WAIT_S = 1.0
_WAIT_S_PER_MB = 0.5  # reading and compressing a trace took 0.05 s per MB on two shared cores; ten times as much


# A Ctrl-C in the terminal is for the training. Not by a new session where it can be helped: Linux gives each session
# its own share of the CPUs, and then the lowest priority still stalled a step by 0.3 s on two cores.
_OUT_OF_REACH: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


def longest_wait_s(trace_mb: float) -> float:
    """How long a child may take for traces of this size before it is given up, in seconds."""
    return _LEAST_WAIT_S + _WAIT_S_PER_MB * trace_mb


class AnalysisError(RuntimeError):
    """The child did not deliver; the message says why in one clause."""


class Analysis:
    """One ``perfwatch analyze RUN_DIR`` in a child process.

    Raises:
        AnalysisError: the child can't be started.
    """

    def __init__(self, directory: RunDirectory, arguments: Sequence[str] = ()) -> None:
        if not sys.executable or shutil.which(sys.executable) is None:
            raise AnalysisError("this interpreter has no executable to start")
        self._directory = directory
        self._older = _stamp(directory)
        self._priority = _at_lowest_priority()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        command = [
            *self._priority,
            sys.executable,
            "-m",
            "lightning_perfwatch",
            "analyze",
            str(directory.path),
            "--background",
        ]
        try:
            self._process = subprocess.Popen(
                [*command, "--format", "json", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd=directory.path,
                env=child_environment(),
                **_OUT_OF_REACH,
            )
        except OSError as error:
            self._errors.close()
            raise AnalysisError(f"no process could be started: {error}") from error

    @property
    def is_running(self) -> bool:
        """Whether the child is still at work; never waits."""
        return self._process.poll() is None

    @property
    def competes(self) -> bool:
        """Whether the running child takes a notable part of the CPUs from the training.

        At the lowest priority within the training's own session it does not: no step of the example GPT was slower
        beside it on two cores, where a child in a session of its own stalled one by 0.3 s.
        """
        return self.is_running and (not self._priority or "start_new_session" in _OUT_OF_REACH)

    def result(self, longest_s: float, on_wait: Callable[[], None] | None = None) -> Report:
        """The report, waiting at most this long for it; then the child is ended.

        ``on_wait`` is called once if it takes longer than a second.

        Raises:
            AnalysisError: the child crashed, was killed, took too long or left no readable report.
        """
        try:
            status = self._wait(longest_s, on_wait)
            last_words = "" if status == 0 else self._last_words()
        except subprocess.TimeoutExpired:
            raise AnalysisError(f"it was not done after {longest_s:.0f} s and was ended") from None
        finally:
            self.end()
        if status != 0:
            raise AnalysisError(f"it ended with status {status}{last_words}")
        if _stamp(self._directory) == self._older:
            raise AnalysisError("it left no report")
        try:
            return self._directory.read_report()
        except (OSError, ValueError) as error:
            raise AnalysisError(f"its report can't be read: {error}") from error

    def end(self) -> None:
        """End the child if it still runs, with what it left half done; idempotent."""
        if self.is_running:
            self._process.kill()
            self._process.wait()
            self._directory.remove_unfinished()
        self._errors.close()

    def _wait(self, longest_s: float, on_wait: Callable[[], None] | None) -> int:
        if on_wait is not None and longest_s > _SHORT_WAIT_S:
            try:
                return self._process.wait(timeout=_SHORT_WAIT_S)
            except subprocess.TimeoutExpired:
                on_wait()
                longest_s -= _SHORT_WAIT_S
        return self._process.wait(timeout=longest_s)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1][:300]})" if lines else ""


def _at_lowest_priority() -> list[str]:
    """What to put before a command so that its very start does not compete with the training."""
    nice = shutil.which("nice")
    return [] if nice is None else [nice, "-n", "19"]


def _stamp(directory: RunDirectory) -> tuple[int, int] | None:
    """What changes when a report is written anew; None without one."""
    try:
        status = directory.report_file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
