"""A child process that reads traces, without torch, and answers with a small summary of each.

Owns the child's life and the messages between the two. Knows nothing of ranks, or of how many children there are.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from lightning_perfwatch.bare_trace import BareTrace, analyze_trace
from lightning_perfwatch.processes import answer_pipe, start_child
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.trace import TraceError

_SERVE = f"from {__name__} import serve; serve()"


@dataclass(frozen=True)
class Unreadable:
    """Why a file gave nothing, in a sentence that names it."""

    reason: str


class ReadingProcess:
    """A child process that reads one trace after the other; one that dies costs its trace and is replaced."""

    def __init__(self, rules: Sequence[Rule], ignore: Sequence[str]) -> None:
        self._task = (tuple(rules), tuple(ignore))
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None
        self._ended = False
        self._starting = threading.Lock()  # a child that starts while all are ended must be ended, too

    @property
    def pid(self) -> int | None:
        """The child's, None before its first trace."""
        return self._process.pid if self._process is not None else None

    def read(self, path: Path) -> BareTrace | Unreadable:
        """What the child makes of ``path``."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(path, process.stdin)
            answer: BareTrace | Unreadable = pickle.load(process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return Unreadable(f"{path} could not be read: {self._last_words(process)}.")
        return answer

    def end(self) -> None:
        """End the child, whatever it is doing; idempotent."""
        with self._starting:
            self._ended = True
            self._end_process()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._ended:
                raise InterruptedError("the readers have been ended")
            if not sys.executable:
                raise ValueError(
                    "Several traces are read by processes of their own, and this Python does not know its own "
                    "interpreter (sys.executable): analyse them one by one."
                )
            if self._process is None:
                self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
                self._process = start_child(_SERVE, self._errors)
                assert self._process.stdin is not None
                _send(self._task, self._process.stdin)
            return self._process

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        """Why the child is gone, in one clause; it is buried, so that the next file gets a new one."""
        process.kill()
        status = process.wait()
        lines: list[str] = []
        with self._starting:
            if self._errors is not None:
                self._errors.seek(0)
                lines = self._errors.read().decode(errors="replace").strip().splitlines()
            self._end_process()
        said = f" ({lines[-1][:300]})" if lines else ", perhaps for lack of memory" if status < 0 else ""
        return f"its reader ended with status {status}{said}"

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def serve() -> None:
    """The child's part: take the rules and then paths from stdin, answer each on stdout, until stdin ends."""
    answers = answer_pipe()
    rules, ignore = pickle.load(sys.stdin.buffer)
    while True:
        try:
            path = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: BareTrace | Unreadable = analyze_trace(path, rules, ignore).packed()
        except TraceError as error:
            answer = Unreadable(str(error))
        _send(answer, answers)


def _send(what: object, pipe: IO[bytes]) -> None:
    pickle.dump(what, pipe)
    pipe.flush()
