"""A terminal for tests: a real pseudo-terminal, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
import time
from types import TracebackType
from typing import TextIO

import pyte

_END = "\x1b]0;seen\x07"


class Emulator:
    """A terminal of ``columns`` and ``rows``; what is written to ``stream``, or to ``fd``, shows on it.

    ``raw`` is all that was written, ``lines`` is what is on the screen, without blank lines at its end.
    """

    def __init__(self, columns: int = 80, rows: int = 120, encoding: str = "utf-8") -> None:
        self._master, self.fd = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.stream: TextIO = os.fdopen(os.dup(self.fd), "w", encoding=encoding)
        self.screen = pyte.Screen(columns, rows)
        self._parser = pyte.ByteStream(self.screen)
        self._raw = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Emulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()
        os.close(self.fd)
        self._thread.join(10)
        os.close(self._master)

    @property
    def raw(self) -> str:
        self._settle()
        return self._raw.decode("utf-8", "replace").replace(_END, "")

    @property
    def lines(self) -> list[str]:
        self._settle()
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def _settle(self) -> None:
        """Wait until all that has been written is on the screen: a title that is set last has been seen."""
        if not self.stream.closed:
            self.stream.flush()
            os.write(self.fd, _END.encode())
            deadline_s = time.monotonic() + 10
            while not self._raw.endswith(_END.encode()) and time.monotonic() < deadline_s:
                time.sleep(0.002)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # nobody has the other end open any more
                return
            self._parser.feed(data)
            self._raw += data
