"""Reports as the user names them: a run directory or a ``report.json``.

Owns the sentences for what is neither. Knows nothing of what is done with a report.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.run_directory import RunDirectory


def read_report(path: Path) -> Report:
    """The report in ``path``, which knows where it lies now.

    Raises:
        ValueError: there is none, or it can't be read as one; the sentence names the path and the remedy.
        OSError: it can't be read at all.
    """
    from lightning_perfwatch import report as report_json
    from lightning_perfwatch.run_directory import RunDirectory

    directory = RunDirectory(path)
    if path.is_dir() and not directory.report_file.exists():
        raise ValueError(_why_none(directory, RunDirectory(path / "perfwatch")))
    file = directory.report_file if path.is_dir() else path
    try:
        report = report_json.from_json(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if replace(report, directory=None) == report_json.Report():
        raise ValueError(f"{file} holds neither a run nor a trace: name a run directory or its report.json.")
    return replace(report, directory=str(path)) if report.source is None else report


def _why_none(directory: RunDirectory, inner: RunDirectory) -> str:
    path = directory.path
    if inner.report_file.exists():
        return f"{path} holds no report.json: name {inner.path}, which does."
    if directory.evidence_file.exists():
        return f"{path} holds no report.json yet: make it with perfwatch analyze {path}."
    return f"{path} holds no report.json: name a run directory, the perfwatch folder in a log directory."
