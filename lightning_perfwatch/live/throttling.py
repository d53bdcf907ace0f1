"""Whether the device or the CPU slows down because it is too hot, from counters of the driver or the kernel.

Owns the reading of NVML (only where pynvml is installed) and of ``/sys``. Sets nothing.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch

from lightning_perfwatch.resources import Clocks

_CPUS = Path("/sys/devices/system/cpu")
_SLOWED_MASK = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons: hardware slowdown, thermal slowdown by software or hardware, and power brake.

The power cap (0x4) is none of them: a fully loaded card runs at it.
"""


class DeviceClocks:
    """Reads clock, temperature and reasons of one NVIDIA device; ``nvml`` is the module pynvml.

    Raises:
        Exception: whatever NVML raises where it can't be used.
    """

    def __init__(self, nvml: Any, uuid: str) -> None:
        nvml.nvmlInit()
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        self._wall_s = 0.0
        self._last_s = time.perf_counter()
        self._slowed_mhz: list[float] = []
        self._free_mhz: list[float] = []
        self._hottest_c = 0.0

    def edge(self, num_steps: int, *, counts: bool) -> None:
        """The steps since the last edge are over; the device is asked if they stand for the run."""
        now_s = time.perf_counter()
        if counts:
            nvml, handle = self._nvml, self._handle
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            clock_mhz = float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            (self._slowed_mhz if reasons & _SLOWED_MASK else self._free_mhz).append(clock_mhz)
            celsius = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
            self._hottest_c = max(self._hottest_c, celsius)
            self._wall_s += now_s - self._last_s
        self._last_s = now_s

    def use(self) -> Clocks | None:
        """What was read; None without a reading."""
        slowed, free = self._slowed_mhz, self._free_mhz
        if not slowed and not free:
            return None
        highest = float(self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))
        return Clocks(
            device_type="cuda",
            wall_s=self._wall_s,
            num_readings=len(slowed) + len(free),
            num_throttled=len(slowed),
            clock_mhz=sum(slowed) / len(slowed) if slowed else None,
            full_clock_mhz=sum(free) / len(free) if free else highest,
            temperature_c=self._hottest_c,
        )


class CpuClocks:
    """Adds up the time in which the hottest core was slowed down.

    Raises:
        OSError: the kernel does not tell.
    """

    def __init__(self) -> None:
        if not self._counters():
            raise FileNotFoundError("no counter of thermal throttling")
        self._wall_s = 0.0
        self._throttled_s = 0.0
        self._last_s = time.perf_counter()
        self._last = self._read()

    @staticmethod
    def _counters() -> list[Path]:
        return sorted(_CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_total_time_ms"))

    def _read(self) -> list[int]:
        return [int(path.read_text()) for path in self._counters()]

    def edge(self, num_steps: int, *, counts: bool) -> None:
        """The steps since the last edge are over; their slow time is added if they stand for the run."""
        now_s, now = time.perf_counter(), self._read()
        if counts and len(now) == len(self._last):
            self._wall_s += now_s - self._last_s
            self._throttled_s += max(after - before for after, before in zip(now, self._last, strict=True)) / 1e3
        self._last_s, self._last = now_s, now

    def use(self) -> Clocks | None:
        """What was added up; None without a step that counts."""
        return Clocks("cpu", self._wall_s, throttled_s=self._throttled_s) if self._wall_s else None


def watch_clocks(device: torch.device) -> DeviceClocks | CpuClocks:
    """The watch for the device that trains.

    Raises:
        OSError: nothing tells.
        Exception: whatever NVML raises where it can't be used.
    """
    if device.type == "cpu":
        return CpuClocks()
    if device.type != "cuda" or torch.version.hip is not None:
        raise FileNotFoundError(f"clocks of {device.type} devices are not read")
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise FileNotFoundError("the clocks of the GPU need the package nvidia-ml-py") from None
    return DeviceClocks(nvml, f"GPU-{torch.cuda.get_device_properties(device).uuid}")
