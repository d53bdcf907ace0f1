"""How a window is asked for from outside of a training: two small files in its run directory.

Owns their names and forms, for the training and for whoever asks. Knows no Trainer, and whether it gets its window is
for the training to say.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from lightning_perfwatch.stored import write_whole

REQUEST_NAME = "window.request"
LISTENING_NAME = "listening.json"


@dataclass(frozen=True)
class Listening:
    """What a training says of itself as long as it takes requests.

    ``every`` is how often it looks, in words. ``first_step`` and ``num_steps`` are the recorded steps of the newest
    window that was asked for, None before the first request was seen, and ``trace`` is its file once it is closed.
    ``off`` is the reason why nothing can be recorded.
    """

    pid: int
    host: str
    every: str
    first_step: int | None = None
    num_steps: int | None = None
    is_closed: bool = False
    trace: str | None = None
    off: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether its process is known to have ended; only a process of this machine can be told to."""
        if self.host != socket.gethostname():
            return False
        if self.pid < 1:
            return True
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:
            return False
        return False


class WindowRequests:
    """The requests that lie in the run directory ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._request = directory / REQUEST_NAME
        self._listening = directory / LISTENING_NAME
        self._seen: tuple[int, int] | None = None

    # For whoever asks

    def ask(self) -> bool:
        """Leave a request; False if one lies there that was not taken yet.

        Raises:
            OSError: the directory can't be written.
        """
        try:
            os.close(os.open(self._request, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            return False
        return True

    def listening(self) -> Listening | None:
        """What the training says; None if none takes requests here.

        Raises:
            ValueError: its file is none of this version.
            OSError: it can't be read.
        """
        try:
            document = json.loads(self._listening.read_bytes())
            Listening(**document)  # another version may have other fields
            return msgspec.convert(document, Listening)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{self._listening} is no PerfWatch file of this version: {error}.") from error

    # For the training

    def is_new(self) -> bool:
        """Whether there is a request that this process has not seen; asks the file system once."""
        try:
            found = self._request.stat()
        except OSError:
            return False
        seen, self._seen = self._seen, (found.st_ino, found.st_mtime_ns)
        return seen != self._seen

    def take(self) -> None:
        """Remove the request, if one lies there."""
        with contextlib.suppress(OSError):
            self._request.unlink(missing_ok=True)

    def say(self, listening: Listening) -> None:
        """Tell whoever asks; a directory that can't be written costs the answer alone."""
        with contextlib.suppress(OSError):
            write_whole(self._listening, json.dumps(asdict(listening)).encode())

    def end(self) -> None:
        """No request is taken any more."""
        self.take()
        with contextlib.suppress(OSError):
            self._listening.unlink(missing_ok=True)
