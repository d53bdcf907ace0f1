from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch

from lightning_perfwatch.live.memory_use import MemoryWatch
from lightning_perfwatch.resources import Growth

CUDA = torch.device("cuda", 0)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's own pages")


@on_linux
def test_growth_of_the_steps_that_count_is_kept() -> None:
    watch = MemoryWatch(torch.device("cpu"))
    kept = [torch.ones(8 * 2**20)]  # 32 MiB
    watch.edge(5, counts=False)
    kept.append(torch.ones(16 * 2**20))
    watch.edge(7, counts=True)
    use = watch.use()
    (part,) = use.growth
    assert part.num_steps == use.num_steps == 7
    assert 60 * 2**20 < part.grown_bytes < 80 * 2**20
    assert use.used_bytes > 96 * 2**20
    assert use.capacity_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert (use.device_type, use.peak_bytes, use.num_retries) == ("cpu", None, None)
    assert len(kept) == 2


@on_linux
def test_a_long_run_is_kept_in_bounded_memory() -> None:
    watch = MemoryWatch(torch.device("cpu"))
    for _ in range(1000):
        watch.edge(2, counts=True)
    use = watch.use()
    assert len(use.growth) < 256
    assert sum(part.num_steps for part in use.growth) == use.num_steps == 2000


def test_counters_of_a_gpus_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the allocator, which tells cumulative counters."""
    told = {"current": 100, "peak": 500, "retries": 3}

    def stats(_: Any) -> dict[str, Any]:
        allocated = {"all": {"current": told["current"], "peak": told["peak"]}}
        return {"allocated_bytes": allocated, "num_alloc_retries": told["retries"], "num_ooms": 0}

    class Properties:
        total_memory = 1000

    monkeypatch.setattr(torch.cuda.memory, "memory_stats_as_nested_dict", stats)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties())
    watch = MemoryWatch(CUDA)
    told["retries"] = 4  # in steps that do not count
    watch.edge(10, counts=False)
    told.update(current=150, peak=900, retries=6)
    watch.edge(20, counts=True)
    use = watch.use()
    assert use.growth == (Growth(20, 50),)
    assert (use.used_bytes, use.peak_bytes, use.capacity_bytes) == (150, 900, 1000)
    assert (use.num_retries, use.num_ooms, use.num_steps) == (2, 0, 20)


def test_a_device_that_does_not_tell_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        MemoryWatch(torch.device("meta"))
