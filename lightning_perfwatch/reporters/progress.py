"""The line on a terminal that says how far a long analysis is.

Owns when it is shown, its wording and that it is gone at the end. Knows nothing of traces; how much of a file has
been read it asks the operating system, so that reading costs nothing more.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from lightning_perfwatch.reporters import screen
from lightning_perfwatch.reporters.cells import cropped
from lightning_perfwatch.reporters.wording import clean

_DELAY_S = 2.0
_INTERVAL_S = 0.25
_ERASE_LINE = "\r\x1b[K"
_BYTES_PER_MB = 1e6


class ProgressLine:
    """While it is entered, ``describe()`` is shown on ``stream`` and kept up to date, after ``delay_s``.

    Nothing is written where ``stream`` is no terminal, or one that can't take a line back.
    """

    def __init__(self, stream: TextIO, describe: Callable[[], str], delay_s: float = _DELAY_S) -> None:
        self._stream = stream
        self._describe = describe
        self._delay_s = delay_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        if screen.is_terminal(self._stream) and not screen.is_dumb():
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        start_s = time.monotonic()
        if self._over.wait(self._delay_s):
            return
        with contextlib.suppress(OSError, ValueError):  # the terminal may go away before the work is done
            while True:
                line = clean(f"perfwatch: {time.monotonic() - start_s:.0f} s, {self._describe()}")
                self._write(_ERASE_LINE + cropped(line, (screen.columns_of(self._stream) or 80) - 1))
                if self._over.wait(_INTERVAL_S):
                    break
            self._write(_ERASE_LINE)

    def _write(self, text: str) -> None:
        screen.write(text, self._stream)
        self._stream.flush()


def reading(pids: Iterable[int], paths: Iterable[Path], num_parts: int = 1) -> str:
    """Which of ``paths`` (files, or folders with files) the processes ``pids`` have open, and how far they are.

    Each of them reads one of the ``num_parts`` equal parts of its file, and stands for those who read the others.

    When all have been read, and where the system does not tell the position (it has no ``/proc``), a single file
    is said with its size.
    """
    paths = list(paths)
    roots = [os.path.realpath(path) for path in paths]
    opened = [said for pid in pids for said in _opened(pid, roots, num_parts)]
    return ", ".join(opened) or (_size(paths[0]) if len(paths) == 1 else "analysing")


def _opened(pid: int, roots: list[str], num_parts: int) -> Iterable[str]:
    with contextlib.suppress(OSError):
        for link in sorted(Path(f"/proc/{pid}/fd").iterdir()):
            with contextlib.suppress(OSError, ValueError):
                target = link.readlink()
                if any(target.is_relative_to(root) for root in roots):
                    position = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text().split()[1]
                    size = link.stat().st_size
                    yield f"{target.name} {_of(min(int(position) * num_parts, size), size)}"


def _of(position_bytes: int, size_bytes: int) -> str:
    return f"{position_bytes / _BYTES_PER_MB:,.0f} of {size_bytes / _BYTES_PER_MB:,.0f} MB"


def _size(path: Path) -> str:
    with contextlib.suppress(OSError):
        if path.is_file():
            return f"{path.name} ({path.stat().st_size / _BYTES_PER_MB:,.0f} MB)"
    return path.name
