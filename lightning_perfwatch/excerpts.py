"""The lines of code around the places that findings name, read from their files.

Owns which files are read, and how much of them: whatever lies at a path, reading it never waits and never fails.
Knows no rule and nothing of how code is shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from lightning_perfwatch.finding import Finding, Where
from lightning_perfwatch.measurements import Excerpt

LINES_AROUND = 3
MOST_BYTES = 5_000_000
"""Of a larger file only the begin is read."""
LONGEST_LINE = 200
"""In characters; what is longer is cut."""


def excerpts(findings: Iterable[Finding], measured_at_s: float | None = None) -> dict[str, Excerpt]:
    """The code around each place that ``findings`` name by file and line, by ``file:line``.

    A place is left out where its file can't be read as text or ends before the line, where its path is relative (it
    may be another project's), and where the file has changed since ``measured_at_s``, seconds of Unix time: its lines
    are then no longer those that ran.
    """
    places = {finding.where.code: finding.where for finding in findings}
    read = {code: _excerpt(where, measured_at_s) for code, where in places.items()}
    return {code: excerpt for code, excerpt in read.items() if code is not None and excerpt is not None}


def _excerpt(where: Where, measured_at_s: float | None) -> Excerpt | None:
    file, line = where.file, where.line
    if file is None or line is None:
        return None
    text = _text(file, measured_at_s)
    if text is None:
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 1 <= line <= len(lines):
        return None
    first = max(1, line - LINES_AROUND)
    return Excerpt(file, first, tuple(_cut(text) for text in lines[first - 1 : line + LINES_AROUND]))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def _text(file: str, measured_at_s: float | None) -> str | None:
    """The begin of a regular file of text as it was when measured; None for anything else."""
    if not Path(file).is_absolute():
        return None
    try:
        # Opening a device may do anything, so look first; what is a pipe by then does not make the open wait.
        if not stat.S_ISREG(Path(file).stat().st_mode):
            return None
        with open(file, "rb", opener=_open_at_once) as opened:
            status = os.fstat(opened.fileno())
            has_changed = measured_at_s is not None and status.st_mtime > measured_at_s
            if has_changed or not stat.S_ISREG(status.st_mode) or status.st_size == 0:  # /proc has files of no size
                return None
            content = opened.read(MOST_BYTES)
    except (OSError, ValueError):  # a path may hold a zero byte, or a character that no file name can have
        return None
    if b"\0" in content:
        return None
    if len(content) == MOST_BYTES:
        content = content[: content.rfind(b"\n") + 1]
    return content.decode("utf-8", "replace")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
