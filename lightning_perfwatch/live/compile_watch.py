"""Notices what torch.compile compiles while training goes on, from dynamo's own records.

Owns the reading of those records. Imports nothing of dynamo: where the process has not, nothing was compiled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from lightning_perfwatch.interruptions import Compilation

_RECORDS = "torch._dynamo.utils"
_MOST_REASON_CHARS = 300


class CompileWatch:
    """Counts compilations step by step, and tells them at the end."""

    def __init__(self) -> None:
        self._began_s = time.time()  # as dynamo's records have it
        self._seen = _num_compiled()
        self._steps: list[tuple[int, float]] = []  # steps in which something was compiled, and when they ended

    @property
    def has_compiled(self) -> bool:
        """Whether anything was compiled since the last step's end."""
        return _num_compiled() != self._seen

    def step_ended(self, step: int) -> bool:
        """Whether anything was compiled in this step."""
        number = _num_compiled()
        if number == self._seen:
            return False
        self._seen = number
        self._steps.append((step, time.time()))
        return True

    def compilations(self, computing_s: Callable[[int], float | None]) -> tuple[Compilation, ...]:
        """All that dynamo still has on record (the newest 64 by default) of the steps that have ended.

        ``computing_s`` tells what a step took without its wait for data and its callbacks.
        """
        return tuple(
            Compilation(
                step=step,
                function=str(getattr(record, "co_name", None) or "?"),
                compile_s=float(getattr(record, "entire_frame_compile_time_s", None) or 0.0),
                reason=_reason(getattr(record, "recompile_reason", None)),
                file=getattr(record, "co_filename", None),
                line=getattr(record, "co_firstlineno", None),
                step_s=computing_s(step),
            )
            for record in _records()
            if (step := self._step_of(getattr(record, "start_time", None))) is not None
        )

    def _step_of(self, start_s: float | None) -> int | None:
        if start_s is None or start_s < self._began_s:
            return None
        return next((step for step, ended_s in self._steps if start_s <= ended_s), None)


def _num_compiled() -> int:
    dynamo = sys.modules.get(_RECORDS)
    return 0 if dynamo is None else int(getattr(dynamo, "counters", {}).get("frames", {}).get("total", 0))


def _records() -> list[Any]:
    read = getattr(sys.modules.get(_RECORDS), "get_compilation_metrics", None)
    return [] if read is None else list(read())


def _reason(text: str | None) -> str | None:
    """The guard that failed, without the stack below it."""
    if not text:
        return None
    first = text.splitlines()[0].partition("  #")[0]
    return " ".join(first.split())[:_MOST_REASON_CHARS]
