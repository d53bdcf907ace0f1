"""Children that will read traces, started before this process has imported what is needed to judge them.

Owns how many are worth starting. Imports nothing that takes long: that is what it is for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from lightning_perfwatch.processes import num_usable_cpus, start_child

_SERVE = "from lightning_perfwatch.reading_process import serve; serve()"
_SUFFIXES = (".json", ".json.gz")
_SIGN_OF_A_RUN = "evidence.json"


class Reader:
    """One such child and what it writes to stderr; it waits for its task."""

    def __init__(self) -> None:
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        try:
            self.process: subprocess.Popen[bytes] = start_child(_SERVE, self.errors)
        except OSError:
            self.errors.close()
            raise

    def end(self) -> None:
        """End the child, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                with suppress(OSError):  # what it was still to be told goes nowhere
                    pipe.close()


class EarlyReaders(AbstractContextManager["EarlyReaders"]):
    """One child per core and trace where ``paths`` are likely to be several traces, else none.

    A child imports what it needs while this process does so too. Those that nobody has taken end with the context.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._readers: list[Reader] = []
        with suppress(OSError):  # whoever needs one will try again, and say so
            num_traces = sum(map(_num_traces, paths))
            for _ in range(min(num_usable_cpus(), num_traces) if num_traces > 1 and sys.executable else 0):
                self._readers.append(Reader())

    def take(self) -> Reader | None:
        """One that has no task yet; None if there is none left."""
        return self._readers.pop() if self._readers else None

    def end(self) -> None:
        """End those that nobody has taken; idempotent."""
        while self._readers:
            self._readers.pop().end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _num_traces(path: Path) -> int:
    if not path.is_dir():
        return 1
    names = [file.name for file in path.iterdir()]
    return 0 if _SIGN_OF_A_RUN in names else sum(name.endswith(_SUFFIXES) for name in names)
