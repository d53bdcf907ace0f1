"""What the tab tells of a run beside its page: its windows, and a row of figures to compare runs by.

Owns the reading of a stored report as far as that needs. Knows nothing of HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lightning_perfwatch.finding import Finding
from lightning_perfwatch.measurements import LoaderInfo, RunInfo, Window
from lightning_perfwatch.report import SCHEMA_VERSION, Phase, Throughput
from lightning_perfwatch.reporters.wording import amount, clean, duration, percent
from lightning_perfwatch.tensorboard_plugin.runs import Run

MOST_REPORT_BYTES = 64 << 20
NOT_KNOWN = "-"


class UnreadableError(ValueError):
    """A report can't be shown; the message says why in one sentence."""


@dataclass(frozen=True)
class Brief:
    """The part of a report that is read for the tab."""

    schema_version: int
    run: RunInfo | None = None
    throughput: Throughput = field(default_factory=Throughput)
    phases: dict[str, Phase] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    findings: tuple[Finding, ...] = ()
    loader: LoaderInfo | None = None
    trace: str | None = None


def stamp(file: Path) -> str | None:
    """What changes when ``file`` is written anew; None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def content_of(run: Run, file: Path) -> bytes:
    """A stored report of ``run``.

    Raises:
        UnreadableError: it is not there, is too large, or lies somewhere else.
    """
    try:
        if not run.holds(file):
            raise UnreadableError(f"{file.name} is no file of this run's own directory.")
        if file.stat().st_size > MOST_REPORT_BYTES:
            raise UnreadableError(
                f"{file.name} is larger than {MOST_REPORT_BYTES >> 20} MB, which no report of PerfWatch is."
            )
        return file.read_bytes()
    except OSError as error:
        raise UnreadableError(f"{file.name} can't be read: {error.strerror or error}.") from error


def brief_of(run: Run) -> Brief:
    """What the run's newest report says.

    Raises:
        UnreadableError: it is no report of this version of PerfWatch.
    """
    content = content_of(run, run.directory.report_file)
    try:
        brief = msgspec.json.decode(content, type=Brief)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnreadableError(f"report.json is no PerfWatch report: {clean(str(error))}.") from error
    if brief.schema_version != SCHEMA_VERSION:
        raise UnreadableError(
            f"report.json has schema version {brief.schema_version} and this PerfWatch reads {SCHEMA_VERSION}: "
            "make it anew with perfwatch analyze."
        )
    return brief


def windows_of(run: Run, brief: Brief) -> dict[str, tuple[str, Path]]:
    """The reports that can be shown: what they show in words, and their files, by a name; the newest is ``""``."""
    shown = next((window for window in brief.windows if window.trace == brief.trace is not None), None)
    newest = "the run up to now" if shown is None else f"the run up to now, trace of {_steps(shown)}"
    found = {"": (newest, run.directory.report_file)}
    for window in reversed(brief.windows):
        if window.trace is not None and window is not shown:
            file = run.directory.window_report_file(window.trace)
            if stamp(file) is not None:
                found[file.name] = (f"as it was after {_steps(window)}", file)
    return found


def _steps(window: Window) -> str:
    if window.num_steps == 1:
        return f"step {window.first_step}"
    return f"steps {window.first_step} to {window.first_step + window.num_steps - 1}"


def figures(brief: Brief) -> dict[str, tuple[str, float | str | None]]:
    """A row to compare runs by: for each column what is shown, and what it is sorted by."""
    run, loader, speed, step_time = brief.run, brief.loader, brief.throughput, brief.throughput.step_time_s
    data_wait = brief.phases.get("data_wait")
    return {
        "model": _text(None if run is None else run.model),
        "device": _text(None if run is None else run.device_name or run.device_type),
        "precision": _text(None if run is None else run.precision),
        "ranks": _number(None if run is None else run.world_size),
        "batch size": _number(None if loader is None else loader.batch_size),
        "workers": _number(None if loader is None else loader.num_workers),
        "tokens/s": _number(speed.tokens_per_s),
        "samples/s": _number(speed.samples_per_s),
        "step p50": (NOT_KNOWN, None) if step_time is None else (duration(step_time.p50), step_time.p50),
        "step p95": (NOT_KNOWN, None) if step_time is None else (duration(step_time.p95), step_time.p95),
        "data wait": (NOT_KNOWN, None) if data_wait is None else (percent(data_wait.share), data_wait.share),
        "findings": _number(len(brief.findings)),
        "most severe": _text(brief.findings[0].rule if brief.findings else None),
    }


def _text(value: str | None) -> tuple[str, str | None]:
    return (clean(value), clean(value)) if value else (NOT_KNOWN, None)


def _number(value: float | None) -> tuple[str, float | None]:
    return (NOT_KNOWN, None) if value is None else (amount(value), value)
