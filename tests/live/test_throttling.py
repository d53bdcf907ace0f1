from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightning_perfwatch.live import throttling
from lightning_perfwatch.live.throttling import CpuClocks, DeviceClocks, watch_clocks


def nvml(*states: tuple[int, int, int]) -> Any:
    """Stands in for pynvml and a GPU: each reading takes the next of ``states`` (reasons, MHz, degrees)."""
    following, state = iter(states), [(0, 0, 0)]

    def reasons(_: Any) -> int:
        state[0] = next(following)
        return state[0][0]

    return SimpleNamespace(
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetCurrentClocksThrottleReasons=reasons,
        nvmlDeviceGetClockInfo=lambda *_: state[0][1],
        nvmlDeviceGetTemperature=lambda *_: state[0][2],
        nvmlDeviceGetMaxClockInfo=lambda *_: 1980,
    )


def test_readings_are_told_apart_by_their_reasons() -> None:
    clocks = DeviceClocks(nvml((0x4, 1800, 70), (0x40, 1200, 88), (0x20, 1000, 90), (0, 1900, 75)), "GPU-1")
    for _ in range(4):
        clocks.edge(10, counts=True)
    found = clocks.use()
    assert found is not None
    assert (found.num_readings, found.num_throttled) == (4, 2)  # a power cap is no fault
    assert (found.clock_mhz, found.full_clock_mhz, found.temperature_c) == (1100.0, 1850.0, 90.0)
    assert found.throttled_s is None


def test_a_device_that_always_is_too_hot_is_compared_with_its_highest_clock() -> None:
    clocks = DeviceClocks(nvml((0x8, 990, 95)), "GPU-1")
    clocks.edge(10, counts=False)  # not asked
    assert clocks.use() is None
    clocks.edge(10, counts=True)
    found = clocks.use()
    assert found is not None
    assert (found.clock_mhz, found.full_clock_mhz) == (990.0, 1980.0)


def counter(cpus: Path, number: int, ms: int) -> None:
    path = cpus / f"cpu{number}/thermal_throttle/core_throttle_total_time_ms"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{ms}\n")


def test_the_hottest_core_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(throttling, "_CPUS", tmp_path)
    counter(tmp_path, 0, 1000)
    counter(tmp_path, 1, 0)
    clocks = CpuClocks()
    counter(tmp_path, 0, 5000)
    clocks.edge(5, counts=False)
    assert clocks.use() is None
    counter(tmp_path, 0, 5100)
    counter(tmp_path, 1, 300)
    clocks.edge(5, counts=True)
    found = clocks.use()
    assert found is not None
    assert found.throttled_s == pytest.approx(0.3)
    assert found.wall_s > 0


def test_where_nothing_tells_the_reason_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(throttling, "_CPUS", tmp_path)
    with pytest.raises(OSError, match="no counter of thermal throttling"):
        watch_clocks(torch.device("cpu"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(OSError, match="need the package nvidia-ml-py"):
        watch_clocks(torch.device("cuda"))
    with pytest.raises(OSError, match="clocks of mps devices are not read"):
        watch_clocks(torch.device("mps"))
