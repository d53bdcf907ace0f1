"""Listens to one signal beside whoever else listens to it.

Owns the handler from its installation to its removal. Does nothing in it but to note that the signal came.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class SignalWatch:
    """Calls ``on_signal`` for the signal ``name`` until :meth:`stop`; a handler that was there before is called too.

    ``reason`` says why the signal is not listened to, if it isn't: Python lets only the main thread set handlers.
    """

    def __init__(self, name: str, on_signal: Callable[[], None]) -> None:
        self._number = signal.Signals[name]
        self._on_signal = on_signal
        self._is_installed = False
        self._former = signal.getsignal(self._number)
        self.reason: str | None = None
        if threading.current_thread() is not threading.main_thread():
            self.reason = "the fit does not run in the main thread"
        elif self._former is None:
            self.reason = "a handler that is not Python's has it"
        else:
            try:
                signal.signal(self._number, self._handle)
                self._is_installed = True
            except (OSError, ValueError) as error:
                self.reason = str(error)

    def stop(self) -> None:
        """Give the signal back, unless somebody has set another handler in the meantime."""
        if self._is_installed and signal.getsignal(self._number) == self._handle:
            with suppress(OSError, ValueError):  # another thread may not
                signal.signal(self._number, self._former)
                self._is_installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._on_signal()
        if callable(self._former):
            self._former(number, frame)
