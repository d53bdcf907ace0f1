"""How long the thread that trains waits for a CPU, and who has the CPUs meanwhile, from the counters of Linux.

Owns the reading of ``/proc``. Knows no Trainer; nothing here waits or starts anything.
"""

from __future__ import annotations

import multiprocessing.process
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lightning_perfwatch.processes import num_usable_cpus
from lightning_perfwatch.resources import ProcessorUse

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IDLE = (3, 4)  # columns of /proc/stat: idle, and idle while a disk is waited for
_GUEST = 8  # from this column on: counted under user and nice already


@dataclass(frozen=True)
class _Reading:
    """Counters in seconds; ``worker_s`` by process."""

    wall_s: float
    running_s: float
    delayed_s: float
    process_s: float
    worker_s: dict[int, float]
    machine_s: float | None

    def since(self, before: _Reading) -> tuple[float, ...]:
        """What went by since ``before``, in the order of :class:`_Sums`; workers that are new count from now on."""
        workers_s = sum(now - before.worker_s[pid] for pid, now in self.worker_s.items() if pid in before.worker_s)
        machine_s = 0.0
        if self.machine_s is not None and before.machine_s is not None:
            machine_s = self.machine_s - before.machine_s
        return (
            self.wall_s - before.wall_s,
            self.running_s - before.running_s,
            self.delayed_s - before.delayed_s,
            self.process_s - before.process_s,
            workers_s,
            machine_s,
        )


class ProcessorWatch:
    """Adds up CPU time between readings, each of which takes some tens of microseconds.

    To be used on the thread that trains. ``num_processes`` train on this machine.

    Raises:
        OSError: the operating system does not tell.
    """

    def __init__(self, num_processes: int) -> None:
        self._num_processes = num_processes
        self._num_workers = 0
        self._num_steps = 0
        self._sums = [0.0] * 6
        self._knows_machine = True
        self._last = _read()

    def edge(self, num_steps: int, *, counts: bool) -> None:
        """The steps since the last edge are over; they are added if they stand for the run."""
        now = _read()
        if counts:
            self._num_steps += num_steps
            spent = now.since(self._last)
            self._sums = [total + part for total, part in zip(self._sums, spent, strict=True)]
            self._num_workers = max(self._num_workers, len(now.worker_s))
            self._knows_machine = self._knows_machine and now.machine_s is not None
        self._last = now

    def use(self) -> ProcessorUse | None:
        """What was added up; None without a step that counts, and where the kernel does not keep these counters."""
        wall_s, running_s, delayed_s, process_s, workers_s, machine_s = self._sums
        if not self._num_steps or running_s <= 0.0:
            return None
        ours_s = self._num_processes * (process_s + workers_s)  # the others do what this one does
        return ProcessorUse(
            num_steps=self._num_steps,
            wall_s=wall_s,
            running_s=running_s,
            delayed_s=delayed_s,
            process_s=process_s,
            num_cpus=num_usable_cpus(),
            num_threads=torch.get_num_threads(),
            num_processes=self._num_processes,
            num_workers=self._num_workers,
            workers_s=workers_s,
            others_s=max(0.0, machine_s - ours_s) if self._knows_machine else None,
        )


def _read() -> _Reading:
    running_ns, delayed_ns = (_PROC / "thread-self/schedstat").read_text().split()[:2]
    return _Reading(
        wall_s=time.perf_counter(),
        running_s=int(running_ns) / 1e9,
        delayed_s=int(delayed_ns) / 1e9,
        process_s=time.process_time(),
        worker_s=_workers(),
        machine_s=_machine_s(),
    )


def _workers() -> dict[int, float]:
    """CPU seconds of the processes that this one started through multiprocessing, as data loaders do.

    ``multiprocessing.active_children()`` would tell them too, but it ends the records of those that are done.
    """
    children: set[Any] = getattr(multiprocessing.process, "_children", set())
    found = {}
    for pid in [child.pid for child in tuple(children)]:
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except OSError:  # it has ended
            continue
        user, system = text.rpartition(")")[2].split()[11:13]  # the name before it may hold any character
        found[int(pid)] = (int(user) + int(system)) / _TICKS_PER_S
    return found


def _machine_s() -> float | None:
    """Seconds that the CPUs which this process may use were busy, with whatever; None where it is not told."""
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    busy = 0
    try:
        for line in (_PROC / "stat").read_text().splitlines():
            name, *columns = line.split()
            if name in usable:
                busy += sum(int(ticks) for at, ticks in enumerate(columns[:_GUEST]) if at not in _IDLE)
            elif not name.startswith("cpu"):
                break
    except OSError:
        return None
    return busy / _TICKS_PER_S
