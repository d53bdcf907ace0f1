"""How much memory a training takes and how that changes, from counters that are kept anyway.

Owns the reading of torch's allocator and of the process's pages. Never waits for a device and resets no counter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lightning_perfwatch.resources import Growth, MemoryUse

_MOST_PARTS = 256
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class _Reading:
    used_bytes: int
    peak_bytes: int | None = None
    num_retries: int | None = None
    num_ooms: int | None = None


class MemoryWatch:
    """Follows the memory in use from edge to edge; a reading takes some tens of microseconds.

    Raises:
        OSError: the operating system does not tell.
        RuntimeError: this kind of device does not tell.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._read = _reader(device)
        self._growth: list[Growth] = []
        self._num_steps = 0
        self._num_retries = 0
        self._last = self._read()

    def edge(self, num_steps: int, *, counts: bool) -> None:
        """The steps since the last edge are over; their growth is kept if they stand for the run."""
        now = self._read()
        if counts:
            self._num_steps += num_steps
            self._num_retries += (now.num_retries or 0) - (self._last.num_retries or 0)
            self._growth.append(Growth(num_steps, now.used_bytes - self._last.used_bytes))
            if len(self._growth) >= _MOST_PARTS:
                self._growth = [_joined(*pair) for pair in zip(self._growth[::2], self._growth[1::2], strict=True)]
        self._last = now

    def use(self) -> MemoryUse:
        """What was seen until now."""
        return MemoryUse(
            device_type=self._device.type,
            used_bytes=self._last.used_bytes,
            num_steps=self._num_steps,
            growth=tuple(self._growth),
            peak_bytes=self._last.peak_bytes,
            capacity_bytes=_capacity_bytes(self._device),
            num_retries=None if self._last.num_retries is None else self._num_retries,
            num_ooms=self._last.num_ooms,
        )


def _joined(first: Growth, second: Growth) -> Growth:
    return Growth(first.num_steps + second.num_steps, first.grown_bytes + second.grown_bytes)


def _reader(device: torch.device) -> Callable[[], _Reading]:
    if device.type == "cpu":
        return _host
    if device.type == "cuda":
        return lambda: _cuda(device)
    used: Any = getattr(torch.get_device_module(device), "memory_allocated", None)
    used = used or getattr(torch.get_device_module(device), "current_allocated_memory", None)
    if used is None:
        raise RuntimeError(f"torch does not tell the memory of {device.type}")
    return lambda: _Reading(int(used()))


def _host() -> _Reading:
    """Pages of the process's own: those of files (a data set that is mapped) come and go with what else needs room."""
    _, resident, shared = _STATM.read_text().split()[:3]
    return _Reading((int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE"))


def _cuda(device: torch.device) -> _Reading:
    """The nested form: flattening it for ``memory_stats`` takes ten times as long."""
    stats = torch.cuda.memory.memory_stats_as_nested_dict(device)
    allocated = stats["allocated_bytes"]["all"]
    return _Reading(
        used_bytes=int(allocated["current"]),
        peak_bytes=int(allocated["peak"]),
        num_retries=int(stats["num_alloc_retries"]),
        num_ooms=int(stats["num_ooms"]),
    )


def _capacity_bytes(device: torch.device) -> int | None:
    if device.type == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None
