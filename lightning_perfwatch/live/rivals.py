"""Finds out who else profiles a run, since two profilers at once lose each other's data.

Only asks; starts and stops nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.profiler.profiler import _KinetoProfile

from lightning_perfwatch.live.phases import PhaseTimer


def another_profiler(trainer: Any, own: object) -> str | None:
    """Who else profiles, in words; None if nobody does.

    Two profilers at once lose one's data, end the training with an error or crash the process. A profiler of the
    user's that is idle now may begin to record in the middle of a window, so it counts as well.
    """
    profiler = trainer.profiler
    while isinstance(profiler, PhaseTimer):
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
