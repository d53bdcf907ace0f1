"""Finds run directories below TensorBoard's log directories, within bounds and without following links.

Owns the walk and the names of runs. Knows nothing of HTTP and of what a report holds.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lightning_perfwatch.run_directory import RunDirectory

MOST_DEPTH = 12
MOST_DIRECTORIES = 20_000
MOST_RUNS = 500
_LEAST_BETWEEN_S = 1.0
_REST_FACTOR = 20.0  # a walk may take a twentieth of the time, however slow the file system is
_HEAD_BYTES = 4096
_SIGN = b'"schema_version"'


@dataclass(frozen=True)
class Run:
    """A run directory and its name: its path from the log directory ``root``, with ``/`` between the parts."""

    name: str
    root: Path
    path: Path

    @property
    def title(self) -> str:
        """The name without the directory's own, which is ``perfwatch`` unless somebody chose it."""
        return self.name.removesuffix("/perfwatch") or self.name

    @property
    def directory(self) -> RunDirectory:
        """The files in it."""
        return RunDirectory(self.path)

    def holds(self, file: Path) -> bool:
        """Whether ``file`` is a plain file in this very directory, with no link on the way from the root."""
        return file.parent == self.path and not file.is_symlink() and file.resolve().is_relative_to(self.root.resolve())


def roots(logdir: str | None, logdir_spec: str | None) -> dict[str, Path]:
    """The log directories by the name that their runs' names begin with, as TensorBoard's own flags say.

    ``logdir_spec`` is a list ``name:path,path``; it is for the case that there is no ``logdir``.
    """
    if logdir:
        return {"": Path(logdir).expanduser()}
    found = {}
    for part in (logdir_spec or "").split(","):
        name, colon, path = part.strip().partition(":")
        if not colon or not name or "/" in name or os.path.splitdrive(part.strip())[0]:
            name, path = "", part.strip()
        if path:
            found[name or path.strip("/")] = Path(path).expanduser()
    return found


class RunFinder:
    """The runs below some log directories; a walk is repeated when it is old enough to be.

    Args:
        below: the log directories by the name that their runs' names begin with.
    """

    def __init__(self, below: Mapping[str, Path]) -> None:
        self._below = dict(below)
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._is_cut = False
        self._next_s = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether the last walk left something out, since there was too much of it."""
        return self._is_cut

    def runs(self) -> dict[str, Run]:
        """The runs by name."""
        with self._lock:
            begin_s = time.monotonic()
            if begin_s >= self._next_s:
                self._walk()
                end_s = time.monotonic()
                self._next_s = end_s + max(_LEAST_BETWEEN_S, _REST_FACTOR * (end_s - begin_s))
            return self._runs

    def _walk(self) -> None:
        found: dict[str, Run] = {}
        self._is_cut = False
        num_left = MOST_DIRECTORIES
        for prefix, root in self._below.items():
            waiting = deque([(root, 0)])
            while waiting:
                if num_left == 0 or len(found) >= MOST_RUNS:
                    self._is_cut = True
                    break
                num_left -= 1
                path, depth = waiting.popleft()
                inside = sorted(_folders(path))
                if depth < MOST_DEPTH:
                    waiting.extend((folder, depth + 1) for folder in inside)
                elif inside:
                    self._is_cut = True
                if _is_run(path):
                    name = "/".join((*((prefix,) if prefix else ()), *path.relative_to(root).parts)) or "."
                    found[name] = Run(name, root, path)
        self._runs = found


def _folders(path: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield path / entry.name


def _is_run(path: Path) -> bool:
    """Whether a report lies here that says to be PerfWatch's, or one in a directory that can only be PerfWatch's."""
    directory = RunDirectory(path)
    file = directory.report_file
    with suppress(OSError, ValueError):
        if file.is_symlink() or not file.is_file():
            return False
        if path.name == "perfwatch" or directory.evidence_file.is_file():
            return True
        with file.open("rb") as content:
            return _SIGN in content.read(_HEAD_BYTES)
    return False
