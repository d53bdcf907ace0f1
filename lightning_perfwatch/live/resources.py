"""Reads what a run has of its machine at the edges of intervals, and leaves out what can't be read.

Owns when it is read and the guard around it. Never waits for a device.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.live.accelerators import find_accelerators
from lightning_perfwatch.live.memory_use import MemoryWatch
from lightning_perfwatch.live.pace import PaceWatch
from lightning_perfwatch.live.parallelism import describe_parallelism, find_data_parallel
from lightning_perfwatch.live.processors import ProcessorWatch
from lightning_perfwatch.live.throttling import watch_clocks
from lightning_perfwatch.resources import Resources

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_OFTEN_S = 0.25
_MOST_COST_SHARE = 2e-3
_MOST_COST_SHARE_LATER = 5e-4
_FIRST_READINGS = 100
_LEAST_TRAINING_SHARE = 0.9


class _Watch(Protocol):
    def edge(self, num_steps: int, *, counts: bool) -> None: ...

    def use(self) -> Any: ...


class ResourceWatch:
    """What one fit has of its machine.

    Counters are read where an interval ends, at most every quarter of a second and so rarely that it costs no more
    than two thousandths of the time, and a quarter of that once there are a hundred readings. Steps count if they stand
    for the run and hardly anything else went on meanwhile.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._missing: dict[str, str] = {}
        self._watches: dict[str, _Watch] = {}
        device = trainer.strategy.root_device
        num_processes = max(1, int(trainer.num_devices)) if trainer.world_size > 1 else 1
        self._watch("processors", lambda: ProcessorWatch(num_processes))
        self._watch("host_memory", lambda: MemoryWatch(torch.device("cpu")))
        self._watch("clocks", lambda: watch_clocks(device))
        self._accelerators = None
        if device.type == "cpu":
            self._watch("pace", PaceWatch)
            self._accelerators = self._told("accelerators", find_accelerators)
        else:
            self._watch("memory", lambda: MemoryWatch(device))
        module = trainer.lightning_module
        self._parallelism = self._told("parallelism", lambda: find_data_parallel(module))
        self._num_readings = 0
        self._num_steps = 0
        self._duration_s = 0.0
        self._counts = True
        self._last_s = time.perf_counter()
        self._next_s = 0.0  # a fit of one short interval has its reading too

    def edge(self, interval: Interval | None) -> None:
        """An interval is over."""
        now_s = time.perf_counter()
        if interval is not None:
            self._num_steps += interval.num_steps
            self._duration_s += interval.duration_s
            self._counts = self._counts and interval.clean
        if now_s < self._next_s:
            return
        began_s = time.thread_time()  # a reading that is interrupted by others is none the dearer for it
        counts = self._counts and self._duration_s > _LEAST_TRAINING_SHARE * (now_s - self._last_s)
        for name, watch in tuple(self._watches.items()):
            if not self._read(name, watch, counts=counts):
                del self._watches[name]
        self._parallelism = self._told("parallelism", lambda: describe_parallelism(self._trainer)) or self._parallelism
        self._num_steps, self._duration_s, self._counts = 0, 0.0, True
        self._last_s = time.perf_counter()
        self._num_readings += 1
        share = _MOST_COST_SHARE if self._num_readings < _FIRST_READINGS else _MOST_COST_SHARE_LATER
        self._next_s = self._last_s + max(_OFTEN_S, (time.thread_time() - began_s) / share)

    def resources(self) -> Resources:
        """All that is known now."""
        used = {name: self._told(name, watch.use) for name, watch in self._watches.items()}
        missing = {name: _TOO_FEW for name, found in used.items() if found is None}
        return Resources(
            **used,
            parallelism=self._parallelism,
            accelerators=self._accelerators,
            missing={**missing, **self._missing},
        )

    def _watch(self, name: str, make: Callable[[], _Watch]) -> None:
        made = self._told(name, make)
        if made is not None:
            self._watches[name] = made

    def _read(self, name: str, watch: _Watch, *, counts: bool) -> bool:
        def read() -> bool:
            watch.edge(self._num_steps, counts=counts)
            return True

        return self._told(name, read) or False

    def _told(self, name: str, ask: Callable[[], _T]) -> _T | None:
        """The answer; None, and the reason, where it can't be had."""
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - drivers and kernels refuse in any way they like; nothing hangs on it
            log.debug("PerfWatch can't read the %s: %s: %s", name, type(error).__name__, error)
            self._missing[name] = f"the {name.replace('_', ' ')} can't be read: {_one_line(error)}"
            return None


_TOO_FEW = "the run has no steps that stand for it, or the kernel does not keep the counters"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
