"""A child process that reads traces, without torch, and answers with a small summary of each.

Owns the child's life and the messages between the two. Knows nothing of ranks, or of how many children there are.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lightning_perfwatch.bare_trace import BareTrace, analyze_trace
from lightning_perfwatch.early_readers import Reader
from lightning_perfwatch.processes import answer_pipe
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.trace import TraceError


@dataclass(frozen=True)
class Unreadable:
    """Why a file gave nothing, in a sentence that names it."""

    reason: str


class ReadingProcess:
    """A child process that reads one trace after the other; one that dies costs its trace and is replaced.

    The first is ``child``, if there is one already.
    """

    def __init__(self, rules: Sequence[Rule], ignore: Sequence[str], child: Reader | None = None) -> None:
        self._task = (tuple(rules), tuple(ignore))
        self._first = child
        self._child: Reader | None = None
        self._ended = False
        self._starting = threading.Lock()  # a child that starts while all are ended must be ended, too

    @property
    def pid(self) -> int | None:
        """The child's, None before its first trace."""
        return self._child.process.pid if self._child is not None else None

    def read(self, path: Path) -> BareTrace | Unreadable:
        """What the child makes of ``path``."""
        child = self._started()
        assert child.process.stdin is not None
        assert child.process.stdout is not None
        try:
            _send(path, child.process.stdin)
            answer: BareTrace | Unreadable = pickle.load(child.process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return Unreadable(f"{path} could not be read: {self._last_words(child)}.")
        return answer

    def end(self) -> None:
        """End the child, whatever it is doing; idempotent."""
        with self._starting:
            self._ended = True
            for child in (self._child, self._first):
                if child is not None:
                    child.end()
            self._child = self._first = None

    def _started(self) -> Reader:
        with self._starting:
            if self._ended:
                raise InterruptedError("the readers have been ended")
            if not sys.executable:
                raise ValueError(
                    "Several traces are read by processes of their own, and this Python does not know its own "
                    "interpreter (sys.executable): analyse them one by one."
                )
            if self._child is None:
                self._child, self._first = self._first or Reader(), None
                assert self._child.process.stdin is not None
                with suppress(OSError):  # it is gone: then it has no answer either
                    _send(self._task, self._child.process.stdin)
            return self._child

    def _last_words(self, child: Reader) -> str:
        """Why the child is gone, in one clause; it is buried, so that the next file gets a new one."""
        child.process.kill()
        status = child.process.wait()
        lines: list[str] = []
        with self._starting:
            if not child.errors.closed:
                child.errors.seek(0)
                lines = child.errors.read().decode(errors="replace").strip().splitlines()
            child.end()
            self._child = None
        said = f" ({lines[-1][:300]})" if lines else ", perhaps for lack of memory" if status < 0 else ""
        return f"its reader ended with status {status}{said}"


def serve() -> None:
    """The child's part: take the rules and then paths from stdin, answer each on stdout, until stdin ends."""
    answers = answer_pipe()
    task = _next_task()
    while task is not None and (path := _next_task()) is not None:
        try:
            answer: BareTrace | Unreadable = analyze_trace(path, *task).packed()
        except TraceError as error:
            answer = Unreadable(str(error))
        _send(answer, answers)


def _next_task() -> Any:
    """What the parent sends next; None when it has ended."""
    try:
        return pickle.load(sys.stdin.buffer)
    except EOFError:
        return None


def _send(what: object, pipe: IO[bytes]) -> None:
    pickle.dump(what, pipe)
    pipe.flush()
