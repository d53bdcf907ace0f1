"""What a run has of its machine and what it lacks: processors, memory, clocks, as immutable data.

Owns their shapes and units. Knows nothing of how they are read or judged. Not measured is None, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProcessorUse:
    """CPU time over ``num_steps`` steps that stand for the run, in ``wall_s`` seconds of wall clock.

    The thread that trains ran for ``running_s`` and was ready to run but had no CPU for ``delayed_s``; ``process_s``
    is the CPU time of all threads of its process, ``workers_s`` that of the ``num_workers`` processes that it started
    through multiprocessing (its loaders' workers), and ``others_s`` that of everything else on the CPUs that this
    process may use (what a hypervisor took included).
    ``num_processes`` processes train on this machine, each with ``num_threads`` threads for one operator.
    """

    num_steps: int
    wall_s: float
    running_s: float
    delayed_s: float
    process_s: float
    num_cpus: int
    num_threads: int
    num_processes: int = 1
    num_workers: int = 0
    workers_s: float = 0.0
    others_s: float | None = None


@dataclass(frozen=True)
class Growth:
    """What the memory in use grew by (below 0: shrank by) over ``num_steps`` steps that stand for the run."""

    num_steps: int
    grown_bytes: int


@dataclass(frozen=True)
class MemoryUse:
    """Memory of the training process on ``device_type``: a device's as torch's allocator has it, or the host's.

    ``used_bytes`` are those in use at the last reading: tensors on a device, the process's own pages on a host.
    ``peak_bytes`` is the most that tensors ever took, ``capacity_bytes`` what there is for this process. ``growth``
    follows the steps in their order. ``num_retries`` is how often the allocator had to give back what it kept and to
    ask again, in the ``num_steps`` steps that stand for the run; ``num_ooms`` how often that was in vain.
    """

    device_type: str
    used_bytes: int
    num_steps: int = 0
    growth: tuple[Growth, ...] = ()
    peak_bytes: int | None = None
    capacity_bytes: int | None = None
    num_retries: int | None = None
    num_ooms: int | None = None


@dataclass(frozen=True)
class Clocks:
    """How fast the device, or the CPU, was allowed to run while ``wall_s`` seconds of steps went by.

    In ``num_throttled`` of ``num_readings`` readings it slowed down because of heat or a failing power supply.
    ``throttled_s`` is the time it did, where a counter tells. ``clock_mhz`` is the mean clock in these readings,
    ``full_clock_mhz`` the mean in the others or, without any, the highest the device can have.
    """

    device_type: str
    wall_s: float
    num_readings: int = 0
    num_throttled: int = 0
    throttled_s: float | None = None
    clock_mhz: float | None = None
    full_clock_mhz: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class Pace:
    """CPU time of a fixed piece of work on the thread that trains, now and then, as a mean of ``num_readings``.

    The seconds of two runs tell how fast the machine was in each, where the ``work`` is called the same and Python has
    the same version.
    """

    num_readings: int
    work_s: float
    work: str


@dataclass(frozen=True)
class DataParallelism:
    """How gradients are exchanged, as the wrapper around the model tells.

    ``wrapper`` is ``DistributedDataParallel`` or ``DataParallel``, ``backend`` such as ``nccl`` or ``gloo``.
    ``unused_parameter_bytes`` are those that got no gradient in the last step that the wrapper looked at, and
    ``exposed_s`` is what that step's exchange took after its backward pass had nothing more to compute.
    """

    wrapper: str
    backend: str | None = None
    find_unused_parameters: bool | None = None
    static_graph: bool | None = None
    gradient_as_bucket_view: bool | None = None
    bucket_cap_bytes: int | None = None
    parameter_bytes: int | None = None
    unused_parameter_bytes: int | None = None
    exposed_s: float | None = None


@dataclass(frozen=True)
class Accelerators:
    """Devices of this machine: those torch could use by their type, and those only the driver knows of.

    ``build`` is the accelerator that this torch is built for: ``cuda``, ``rocm``, ``xpu`` or ``cpu``.
    """

    usable: dict[str, int] = field(default_factory=dict)
    num_nvidia: int = 0
    build: str = "cpu"


@dataclass(frozen=True)
class Resources:
    """All of it; ``missing`` gives, for a field that could not be read, the reason in one clause.

    What there is not is None without a reason: ``memory``, that of the device that trains, on a CPU; ``accelerators``,
    which are looked for on a CPU only; ``parallelism`` where the model is in no wrapper for several devices.
    """

    processors: ProcessorUse | None = None
    memory: MemoryUse | None = None
    host_memory: MemoryUse | None = None
    clocks: Clocks | None = None
    pace: Pace | None = None
    parallelism: DataParallelism | None = None
    accelerators: Accelerators | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def why_missing(self, name: str) -> str:
        """The reason, in one clause, why the field ``name`` is None."""
        return self.missing.get(name, f"{name.replace('_', ' ')}: not read")
