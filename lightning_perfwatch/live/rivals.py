"""Finds out who else profiles a run, since two profilers at once lose each other's data.

Asks and listens; starts and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.profiler
from torch.profiler.profiler import _KinetoProfile

from lightning_perfwatch.live.listener import Listener


def another_profiler(trainer: Any, own: object) -> str | None:
    """Who else profiles, in words; None if nobody does.

    Two profilers at once lose one's data, end the training with an error or crash the process. A profiler of the
    user's that is idle now may begin to record in the middle of a window, so it counts as well.
    """
    profiler = trainer.profiler
    while isinstance(profiler, Listener):
        profiler = profiler.inner
    if any(kind.__name__ == "PyTorchProfiler" for kind in type(profiler).__mro__):
        return "the Trainer's PyTorchProfiler"
    for callback in trainer.callbacks:
        if callback is own:
            break
        if type(callback) is type(own):
            return "another PerfWatch"
    for holder in (*trainer.callbacks, trainer.lightning_module):
        if holder is not own and any(isinstance(value, _KinetoProfile) for value in vars(holder).values()):
            return f"a torch.profiler of {type(holder).__name__}"
    return profiler_on_thread()


def profiler_on_thread() -> str | None:
    """Says that a torch profiler runs on this thread; None if none does."""
    return "a torch.profiler that is running already" if torch._C._autograd._profiler_enabled() else None


_STARTERS = ("_prepare_profiler", "_enable_profiler")


class StartListener:
    """Calls ``on_start`` before any profiler starts in this process, for as long as it listens.

    torch tells nobody that a profiler starts, so the two functions through which each of them does are replaced for
    that time in the one module that calls them.
    """

    def __init__(self, on_start: Callable[[], None]) -> None:
        self._on_start = on_start
        self._originals: dict[str, Any] = {}

    def listen(self) -> None:
        """Begin to listen."""
        for name in _STARTERS:
            original = getattr(torch.autograd.profiler, name, None)
            if original is not None and name not in self._originals:
                self._originals[name] = original
                setattr(torch.autograd.profiler, name, self._announced(original))

    def ignore(self) -> None:
        """Listen no longer; safe to call at any time."""
        while self._originals:
            name, original = self._originals.popitem()
            setattr(torch.autograd.profiler, name, original)

    def _announced(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*args: Any, **kwargs: Any) -> Any:
            self._on_start()
            return original(*args, **kwargs)

        return start
