"""What was found out about this machine, as immutable data.

Owns shapes and units. Knows nothing of how it is found out or judged. What could not be found out is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TorchBuild:
    """``built_for`` is ``cuda``, ``rocm``, ``xpu`` or ``cpu``, in the version ``built_for_version``."""

    version: str
    built_for: str
    built_for_version: str | None = None


@dataclass(frozen=True)
class Devices:
    """Devices that torch can use: their type (``cuda``, ``mps``, … or None) and their names."""

    type: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    """A few operators recorded by torch.profiler; ``num_kernels`` is None where there is no device to record."""

    activities: tuple[str, ...]
    num_operators: int
    num_kernels: int | None = None


@dataclass(frozen=True)
class Package:
    """A package that could be imported."""

    version: str


@dataclass(frozen=True)
class Watchers:
    """What watches every Python process that starts like this one: a trace function, a profile function, tools."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class TorchFacts:
    """Answers of a child process that imports torch, in the order in which it was asked.

    ``failures`` has, by the name of the field, why an answer is None. ``complaints`` are lines that the profiler
    wrote meanwhile.
    """

    build: TorchBuild | None = None
    devices: Devices | None = None
    recording: Recording | None = None
    lightning: Package | None = None
    watchers: Watchers | None = None
    failures: dict[str, str] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Directory:
    """Where runs would be written; ``problem`` says why they can't be, in one clause."""

    path: str
    problem: str | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Processors:
    """CPUs of the machine, those the process may run on, and the number a control group lets it use at a time."""

    num_cpus: int
    num_allowed: int
    quota_cpus: float | None = None
    has_thermal_counter: bool = False


@dataclass(frozen=True)
class Clock:
    """The clock that steps are timed by: its source in the kernel, what a reading costs, and whether it only grows."""

    source: str | None
    read_s: float
    resolution_s: float
    is_monotonic: bool = True


@dataclass(frozen=True)
class Nvidia:
    """What the NVIDIA driver says, whatever torch makes of it."""

    num_gpus: int = 0
    driver_version: str | None = None


@dataclass(frozen=True)
class MachineFacts:
    """All of it.

    ``packages`` has the version of each package that was looked for, None if it is not installed. ``environment``
    holds those variables that are set and matter. ``tracer_pid`` is the process that traces this one (a debugger),
    0 if none does.
    """

    python_version: str
    python_path: str
    torch: TorchFacts
    directory: Directory
    processors: Processors
    clock: Clock
    nvidia: Nvidia = Nvidia()
    packages: dict[str, str | None] = field(default_factory=dict)
    has_tensorboard_tab: bool = False
    shared_memory_bytes: int | None = None
    max_open_files: int | None = None
    compiler: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    tracer_pid: int = 0
