"""``perfwatch trigger``: asks a training that is under way for one more profiled window.

Owns what is said about it. Whether and when the window is recorded is for the training to say.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_perfwatch.commands.options import seconds

if TYPE_CHECKING:
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.window_requests import Listening, WindowRequests

EXIT_OK = 0
EXIT_NOT_YET = 1

_POLL_S = 0.1


def add_to(commands: Any) -> None:
    """Add the parser of ``perfwatch trigger``."""
    parser = commands.add_parser(
        "trigger",
        help="ask a training that is under way for one more window",
        description="Ask a training that is under way for one more profiled window. Exit code 0: it was asked (with "
        "--wait: the window is in the report); 1: --wait was too short or the training ended first; 2: no training "
        "takes requests there.",
        allow_abbrev=False,
    )
    parser.add_argument("path", type=Path, metavar="RUN_DIR", help="run directory of the training")
    parser.add_argument(
        "--wait", type=seconds, metavar="SECONDS", help="wait so long for the report with the window, and sum it up"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, say what will happen, and wait if that was wanted.

    Raises:
        ValueError: nobody listens in that directory, or nothing can be recorded.
        OSError: the directory can't be written.
    """
    from lightning_perfwatch.window_requests import WindowRequests

    path: Path = arguments.path
    requests = WindowRequests(path)
    before = _listener(requests, path)
    if requests.ask():
        _say(f"Asked process {before.pid} on {before.host} for a window; it looks {before.every}.")
    else:
        _say(f"A window is asked for already, and process {before.pid} on {before.host} has not taken that up yet.")
    if arguments.wait is None:
        _say(f"The report will be {path / 'report.json'}; to wait for it: --wait SECONDS.")
        return EXIT_OK
    return _wait(requests, path, before, time.monotonic() + arguments.wait)


def _listener(requests: WindowRequests, path: Path) -> Listening:
    """Who takes requests in ``path``; ValueError with the reason if nobody does."""
    if not path.is_dir():
        raise ValueError(f"{path} is no directory: give the run directory of a training that is under way.")
    found = requests.listening()
    if found is None:
        is_over = (path / "report.json").exists()
        seen = "it holds a report, so a training here is over or takes no requests" if is_over else (
            "it has not come to its first step, or takes no requests, or this is no run directory"
        )  # fmt: skip
        raise ValueError(f"No training takes requests in {path}: {seen}.")
    if found.is_gone:
        raise ValueError(f"The training that took requests in {path} (process {found.pid}) is gone.")
    if found.off is not None:
        raise ValueError(f"The training in {path} can record no window: {found.off}.")
    return found


def _wait(requests: WindowRequests, path: Path, before: Listening, end_s: float) -> int:
    """Follow the training until the report holds a newer window than ``before``."""
    first_step = None
    reports = _Reports(path)
    while time.monotonic() < end_s:
        now = requests.listening()
        if now is not None and now.off is not None:
            raise ValueError(f"The training in {path} can record no window: {now.off}.")
        if first_step is None and now is not None and _is_newer(now, before) and now.num_steps:
            first_step = now.first_step
            _say(f"It records steps {first_step} to {int(first_step or 0) + now.num_steps - 1}.")
        if _tell_report(reports, before, first_step):
            return EXIT_OK
        if now is None or now.is_gone:  # who is gone writes no report any more
            return _after_the_end(reports, before, first_step, end_s if now is None else 0.0)
        time.sleep(_POLL_S)
    _say("The window is not in the report yet; the training goes on." if first_step is None else
         f"The window from step {first_step} on is not in the report yet; the training goes on.")  # fmt: skip
    return EXIT_NOT_YET


def _is_newer(now: Listening, before: Listening) -> bool:
    """Whether the window that the training tells of is not one that was closed before the request."""
    return now.first_step is not None and (now.first_step != before.first_step or not before.is_closed)


class _Reports:
    """The report in ``path``, read again only when it was written anew: reading takes a CPU that the training needs."""

    def __init__(self, path: Path) -> None:
        from lightning_perfwatch.run_directory import RunDirectory

        self._directory = RunDirectory(path)
        self._read: tuple[int, int] | None = None

    def newest(self) -> Report | None:
        """The report if it is a new one."""
        try:
            state = self._directory.report_file.stat()
            written = (state.st_ino, state.st_mtime_ns)
            if written == self._read:
                return None
            report = self._directory.read_report()
        except (OSError, ValueError):
            return None
        self._read = written
        return report


def _tell_report(reports: _Reports, before: Listening, first_step: int | None) -> bool:
    """Sum the report up, once it holds the window that was asked for; whether it does."""
    from lightning_perfwatch.measurements import REQUESTED

    report = reports.newest()
    if report is None:
        return False
    known = before.first_step if before.is_closed and before.first_step is not None else -1
    asked = [w for w in report.windows if w.opened_by.startswith(REQUESTED) and w.first_step > known]
    if first_step is not None:
        asked = [window for window in asked if window.first_step == first_step]
    if asked:
        from lightning_perfwatch.reporters.terminal import window_line

        _say(window_line(report))
    return bool(asked)


def _after_the_end(reports: _Reports, before: Listening, first_step: int | None, end_s: float) -> int:
    """The training has ended: its last report may hold the window."""
    while time.monotonic() < end_s:
        if _tell_report(reports, before, first_step):
            return EXIT_OK
        time.sleep(_POLL_S)
    _say("The training is over and its report does not hold the window.")
    return EXIT_NOT_YET


def _say(line: str) -> None:
    from lightning_perfwatch.reporters.wording import clean

    sys.stdout.write(clean(line) + "\n")
    sys.stdout.flush()
