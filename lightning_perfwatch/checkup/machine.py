"""Finds out what the operating system tells of this machine and this interpreter.

Imports neither torch nor lightning; leaves nothing behind but the answer.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from lightning_perfwatch.checkup.facts import Clock, Directory, MachineFacts, Nvidia, Processors
from lightning_perfwatch.checkup.system_checks import VARIABLES
from lightning_perfwatch.checkup.torch_child import ask_torch
from lightning_perfwatch.processes import cgroup_quota_cpus

_PACKAGES = ("lightning", "tensorboard", "torch-tb-profiler", "nvidia-ml-py", "pynvml")
_SHARED_MEMORY = Path("/dev/shm")
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_THERMAL_COUNTERS = ("cpu0/thermal_throttle/core_throttle_count", "cpu0/thermal_throttle/package_throttle_count")
_CPUS = Path("/sys/devices/system/cpu")
_NVIDIA = Path("/proc/driver/nvidia")
_NUM_READINGS, _NUM_ROUNDS = 500, 20


def look(directory: Path, timeout_s: float) -> MachineFacts:
    """Everything, with ``directory`` as the place for runs and at most ``timeout_s`` seconds for torch."""
    return MachineFacts(
        python_version=platform.python_version(),
        python_path=sys.executable,
        torch=ask_torch(timeout_s),
        directory=_directory(directory),
        processors=_processors(),
        clock=_clock(),
        nvidia=_nvidia(),
        packages={name: _version(name) for name in _PACKAGES},
        has_tensorboard_tab=_has_tensorboard_tab(),
        shared_memory_bytes=_shared_memory_bytes(),
        max_open_files=_max_open_files(),
        compiler=_compiler(),
        environment={name: os.environ[name] for name in VARIABLES if os.environ.get(name)},
        tracer_pid=_tracer_pid(),
    )


def _directory(path: Path) -> Directory:
    """Tries to write below ``path``, or below the nearest of its parents that is there; makes no directory."""
    path = path.absolute()
    there = next((parent for parent in (path, *path.parents) if parent.exists()), path)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"perfwatch")
        return Directory(str(path), None, shutil.disk_usage(there).free)
    except OSError as error:
        return Directory(str(path), f"{there}: {error.strerror or error}")


def _processors() -> Processors:
    num_cpus = os.cpu_count() or 1
    num_allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else num_cpus
    has_counter = any((_CPUS / name).exists() for name in _THERMAL_COUNTERS)
    return Processors(num_cpus, num_allowed, cgroup_quota_cpus(), has_counter)


def _clock() -> Clock:
    """Reads the clock often enough to see whether it ever goes back, and what it costs while nobody interferes."""
    rounds_s = [[time.perf_counter() for _ in range(_NUM_READINGS)] for _ in range(_NUM_ROUNDS)]
    readings_s = [reading_s for round_s in rounds_s for reading_s in round_s]
    info = time.get_clock_info("perf_counter")
    return Clock(
        source=_text(_CLOCK_SOURCE),
        read_s=min(round_s[-1] - round_s[0] for round_s in rounds_s) / (_NUM_READINGS - 1),
        resolution_s=info.resolution,
        is_monotonic=info.monotonic and readings_s == sorted(readings_s),
    )


def _nvidia() -> Nvidia:
    gpus = _NVIDIA / "gpus"
    version = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", _text(_NVIDIA / "version") or "")
    return Nvidia(len(list(gpus.iterdir())) if gpus.is_dir() else 0, version[1] if version else None)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _has_tensorboard_tab() -> bool:
    found: Iterable[importlib.metadata.EntryPoint] = importlib.metadata.entry_points(group="tensorboard_plugins")
    return any(point.name == "perfwatch" for point in found)


def _shared_memory_bytes() -> int | None:
    return shutil.disk_usage(_SHARED_MEMORY).total if _SHARED_MEMORY.is_dir() else None


def _max_open_files() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _compiler() -> str | None:
    """The C++ compiler that torch.compile would call: ``CXX``, else the first that is on the path."""
    wanted = os.environ.get("CXX", "").split()[:1] or ["g++", "clang++", "cl"]
    return next((found for found in map(shutil.which, wanted) if found), None)


def _tracer_pid() -> int:
    found = re.search(r"^TracerPid:\s*(\d+)", _text(Path("/proc/self/status")) or "", flags=re.MULTILINE)
    return int(found[1]) if found else 0


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return None
