"""Executables that stand in for the interpreter of an analysis, and a small run to analyse."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.measurements import StepTimes, Window
from tests.live.traces import new_capture, record

HANGS = "echo $$ >{here}/pid; exec sleep 300"
CRASHES = "echo first >&2; echo 'no such evidence' >&2; exit 3"
IS_KILLED = "kill -9 $$"
LEAVES_NOTHING = "exit 0"


def play_interpreter(monkeypatch: pytest.MonkeyPatch, here: Path, script: str) -> None:
    """Let ``script`` be what an analysis starts."""
    here.mkdir(exist_ok=True)
    executable = here / "python"
    executable.write_text("#!/bin/sh\n" + script.format(here=here) + "\n")
    executable.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(executable))


def pid_in(here: Path) -> int:
    """The process that :data:`HANGS` has become."""
    file = here / "pid"
    for _ in range(500):
        if file.exists() and file.read_text().strip():
            return int(file.read_text())
        time.sleep(0.01)
    raise AssertionError("the child did not start")


def runs(pid: int) -> bool:
    """Whether this process is alive, rather than gone or waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def with_trace(directory: Path, **changes: Any) -> Evidence:
    """The evidence of three steps, two of them recorded into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    capture = new_capture(directory)
    capture.start(range(4, 6))
    record(capture, 2)
    return Evidence(**{"steps": steps(), "windows": (capture.stop(range(4, 6)),), **changes})


def steps() -> StepTimes:
    return StepTimes(np.full((3, 7), 0.01))


def lost_window() -> Window:
    return Window(4, 2, 2, trace="rank0.1.pt.trace.json", size_mb=3.0)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
