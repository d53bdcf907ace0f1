"""Runs a case as a user would, as a process of its own, and reads the report that it leaves.

Owns how a run is started and ended. Knows nothing of what is wrong with it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.case import Case, Recording
from tests.faults.recorded import FOLDER

ROOT = Path(__file__).parents[2]
NUM_STEPS = 60
_LIMIT_S = 900.0
_NUM_LAST_WORDS = 800


@dataclass(frozen=True)
class Outcome:
    """What came of a run: ``report`` is its ``report.json``, or None where it failed with these last words."""

    report: dict[str, Any] | None
    words: str
    wall_s: float
    directory: Path | None = None

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The report's findings, in its order."""
        return [] if self.report is None else list(self.report["findings"])

    @property
    def trace(self) -> Path | None:
        """The first trace that the run left."""
        traces = () if self.directory is None else sorted(self.directory.glob("perfwatch/*.pt.trace.json*"))
        return traces[0] if traces else None


def train(case: Case, directory: Path, fixed: bool = False, num_steps: int = NUM_STEPS) -> Outcome:
    """Run ``case`` in ``directory``, with its fix if ``fixed``.

    One thread for torch, if the case does not say otherwise: a second one waits for the first at every operator, and
    on a machine that does anything else at the time such a run measures that.
    """
    arguments = [
        f"trainer.max_steps={num_steps}",
        "trainer.accelerator=cpu",
        *shlex.split(case.arguments),
        *(shlex.split(case.fix) if fixed and case.fix else ()),
        f"hydra.run.dir={directory}",
    ]
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "train.py"), *arguments]
    start_s = time.perf_counter()
    status, words = _run(command, directory, environment, case.cpus)
    wall_s = time.perf_counter() - start_s
    path = directory / "perfwatch" / "report.json"
    report = json.loads(path.read_text()) if status == 0 and path.exists() else None
    return Outcome(report, words[-_NUM_LAST_WORDS:].strip(), wall_s, directory)


def analyze(recording: Recording) -> Outcome:
    """What the command says of somebody's traces."""
    paths = [str(FOLDER / file) for file in recording.files]
    command = [sys.executable, "-m", "lightning_perfwatch", "analyze", *paths, "--format", "json"]
    start_s = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    wall_s = time.perf_counter() - start_s
    report = json.loads(done.stdout) if done.returncode == 0 else None
    return Outcome(report, done.stderr[-_NUM_LAST_WORDS:].strip(), wall_s)


def _run(command: Sequence[str], folder: Path, environment: dict[str, str], cpus: int | None) -> tuple[int, str]:
    """Exit status and last words; a run over its time is ended with all its ranks and workers."""

    def bind() -> None:
        if cpus is not None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])

    log = folder / "output.txt"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=bind,  # noqa: PLW1509 - it does nothing but one system call
        ) as process,
    ):
        try:
            status = process.wait(_LIMIT_S)
        except BaseException:  # whatever ends this waiting ends the run, which has a session of its own
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = -signal.SIGKILL
            if not isinstance(sys.exc_info()[1], subprocess.TimeoutExpired):
                raise
    return status, log.read_text(errors="replace")
