"""Listens to the garbage collector; a collection of Python's own costs two calls of a clock.

Owns the entry in ``gc.callbacks``. Knows no Trainer and nothing of what a pause means.
"""

from __future__ import annotations

import gc
import linecache
import sys
import time
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from lightning_perfwatch.interruptions import GcPauses
from lightning_perfwatch.live.owners import kind_of_code

_GENERATIONS = 3


@dataclass
class _Sum:
    """Collections of one generation."""

    number: int = 0
    total_ns: int = 0
    max_ns: int = 0
    number_called: int = 0
    called_ns: int = 0
    places: dict[tuple[CodeType, int], int] = field(default_factory=dict)

    def add(self, other: _Sum) -> None:
        self.number += other.number
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.number_called += other.number_called
        self.called_ns += other.called_ns
        for place, spent_ns in other.places.items():
            self.places[place] = self.places.get(place, 0) + spent_ns


class GcWatch:
    """Adds up collections, step by step, from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._totals = [_Sum() for _ in range(_GENERATIONS)]
        self._of_step: dict[int, _Sum] = {}
        self._num_steps = 0
        self._begun_ns = 0
        self._caller: tuple[CodeType, int] | None = None

    def start(self) -> None:
        """Begin to listen."""
        gc.callbacks.append(self._listen)

    def stop(self) -> None:
        """Listen no more; idempotent."""
        if self._listen in gc.callbacks:
            gc.callbacks.remove(self._listen)

    def _listen(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._caller = _collecting_call(sys._getframe(1)) if info["generation"] == _GENERATIONS - 1 else None
            self._begun_ns = time.perf_counter_ns()
            return
        spent_ns = time.perf_counter_ns() - self._begun_ns
        found = self._of_step.setdefault(info["generation"], _Sum())
        found.add(_Sum(1, spent_ns, spent_ns))
        if self._caller is not None:
            found.add(_Sum(0, 0, 0, 1, spent_ns, {self._caller: spent_ns}))
            self._caller = None

    @property
    def has_collected(self) -> bool:
        """Whether there was a collection since the last step's end."""
        return bool(self._of_step)

    def step_ended(self, *, counts: bool) -> None:
        """A step is over; its collections are added if it ``counts`` and forgotten if not."""
        self._num_steps += counts
        if self._of_step:
            ended, self._of_step = self._of_step, {}
            if counts:
                for generation, found in ended.items():
                    self._totals[min(generation, _GENERATIONS - 1)].add(found)

    def add_steps(self, num_steps: int) -> None:
        """So many steps that count have ended, without a collection."""
        self._num_steps += num_steps

    def pauses(self, mean_step_s: float) -> tuple[GcPauses, ...] | None:
        """One entry per generation, with or without collections, of steps that took ``mean_step_s`` on average.

        None without a step that counts.
        """
        if not self._num_steps:
            return None
        return tuple(self._pauses_of(generation, found, mean_step_s) for generation, found in enumerate(self._totals))

    def _pauses_of(self, generation: int, found: _Sum, mean_step_s: float) -> GcPauses:
        code, line = max(found.places, key=lambda place: found.places[place], default=(None, None))
        return GcPauses(
            generation=generation,
            num_collections=found.number,
            total_s=found.total_ns / 1e9,
            max_s=found.max_ns / 1e9,
            num_steps=self._num_steps,
            step_s=self._num_steps * mean_step_s,
            num_called=found.number_called,
            called_s=found.called_ns / 1e9,
            file=None if code is None else code.co_filename,
            line=line,
        )


def _collecting_call(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """The line that called for this collection; None if the interpreter began it by itself.

    A call from C code shows as the line that is being run: it names ``collect``. Of a library's call the user's line
    that led to it is taken, if there is one.
    """
    if frame is None or "collect" not in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
        return None
    place = (frame.f_code, frame.f_lineno)
    outer: FrameType | None = frame
    while outer is not None:
        if kind_of_code(outer.f_code) == "user":
            return outer.f_code, outer.f_lineno
        outer = outer.f_back
    return place
