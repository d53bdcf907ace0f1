"""What the operating system's limits, and who else watches the process, mean for measuring.

Pure: facts in, checks out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lightning_perfwatch.checkup.check import Check, missing, ok, warning
from lightning_perfwatch.checkup.facts import MachineFacts

VARIABLES = {
    "CUDA_INJECTION64_PATH": "loads another CUDA profiler, and only one can listen: kernels may be missing in traces",
    "NSYS_PROFILING_SESSION_ID": "says that this runs under Nsight Systems: kernels may be missing in traces",
    "KINETO_USE_DAEMON": "lets a daemon start traces at any time, beside those of PerfWatch",
    "HSA_TOOLS_LIB": "loads another profiler for AMD GPUs: kernels may be missing in traces",
    "ROCP_TOOL_LIB": "loads another profiler for AMD GPUs: kernels may be missing in traces",
    "CUDA_LAUNCH_BLOCKING": "makes the host wait for every kernel, so that all is slower than it is without",
    "HIP_LAUNCH_BLOCKING": "makes the host wait for every kernel, so that all is slower than it is without",
    "AMD_SERIALIZE_KERNEL": "makes the host wait for every kernel, so that all is slower than it is without",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "makes every tensor ask the driver for memory, which is slow",
    "PYTHONDEVMODE": "makes Python check what it does, which is slow",
}
"""Environment variables that are in the way of a true measurement, and how."""

MIN_FREE_BYTES = 1_000_000_000
"""A window's trace has up to 200 MB before it is compressed, beside the compressed one that is being written."""

MIN_SHARED_MEMORY_BYTES = 512_000_000
"""Containers come with 64 MiB, which is less than a few batches of pictures from several workers."""

MIN_OPEN_FILES = 1024
"""What Linux gives by default; workers pass each tensor of a batch by a file descriptor."""

MAX_CLOCK_READ_S = 1e-6
"""A kernel's fast clock takes less than a tenth of this; some twenty readings make up a step's measurement."""


def _python(facts: MachineFacts) -> Iterable[Check]:
    yield ok("Python", f"{facts.python_version}, {facts.python_path}")


def _directory(facts: MachineFacts) -> Iterable[Check]:
    directory = facts.directory
    if directory.problem is not None:
        detail = f"{directory.path} can't be written ({directory.problem})"
        yield missing("log directory", detail, "Give PerfWatch another directory: PerfWatch(dir=...).", True)
        return
    yield ok("log directory", f"{directory.path} can be written")
    if directory.free_bytes is None:
        return
    free = f"{_size(directory.free_bytes)} free"
    if directory.free_bytes < MIN_FREE_BYTES:
        detail = f"{free}; a window's trace takes up to 200 MB, and more while it is compressed"
        yield warning("disk space", detail, "Make room, or give PerfWatch a directory on another disk.")
    else:
        yield ok("disk space", free)


def _processors(facts: MachineFacts) -> Iterable[Check]:
    cpus = facts.processors
    quota = cpus.quota_cpus
    if quota is not None and quota < cpus.num_allowed:
        detail = f"a control group allows the time of {quota:g} CPUs, and torch starts {cpus.num_allowed} threads"
        remedy = f"Set OMP_NUM_THREADS={max(1, round(quota))}, or give the container more CPUs."
        yield warning("CPUs", detail, remedy)
    elif cpus.num_allowed == 1:
        remedy = "Give this process more CPUs; until then look at a run's report after it has ended."
        yield warning("CPUs", "1, which training, loader workers and the analysis of traces share", remedy)
    else:
        of_all = f" of {cpus.num_cpus}" if cpus.num_cpus != cpus.num_allowed else ""
        yield ok("CPUs", f"{cpus.num_allowed}{of_all} for this process")


def _limits(facts: MachineFacts) -> Iterable[Check]:
    shared_bytes, num_files = facts.shared_memory_bytes, facts.max_open_files
    if shared_bytes is not None and shared_bytes < MIN_SHARED_MEMORY_BYTES:
        detail = f"/dev/shm has {_size(shared_bytes)}, through which loader workers pass every batch"
        yield warning("shared memory", detail, "Start the container with --shm-size=8g or --ipc=host.")
    elif shared_bytes is not None:
        yield ok("shared memory", f"{_size(shared_bytes)} in /dev/shm for loader workers")
    if num_files is not None and num_files < MIN_OPEN_FILES:
        detail = f"at most {num_files}, and loader workers need one for every tensor on its way"
        yield warning("open files", detail, f"Raise the limit before training: ulimit -n {4 * MIN_OPEN_FILES}.")
    else:
        yield ok("open files", "without limit" if num_files is None else f"up to {num_files:,}")


def _clock(facts: MachineFacts) -> Iterable[Check]:
    clock = facts.clock
    source = f"{clock.source}, " if clock.source else ""
    if not clock.is_monotonic:
        remedy = "Choose another clock source in the kernel (clocksource=tsc) or another machine."
        yield missing("clock", f"{source}it goes back now and then", remedy, is_essential=True)
    elif max(clock.read_s, clock.resolution_s) > MAX_CLOCK_READ_S:
        detail = f"{source}a reading takes {clock.read_s * 1e6:.1f} µs, to {clock.resolution_s * 1e6:.3g} µs"
        yield warning("clock", detail, "Choose the clock source tsc in the kernel, if the machine has it.")
    else:
        yield ok("clock", f"{source}a reading takes {clock.read_s * 1e9:.0f} ns")


def _rivals(facts: MachineFacts) -> Iterable[Check]:
    found = False
    for variable, value in facts.environment.items():
        if variable in VARIABLES and value != "0":
            found = True
            yield warning("environment", f"{variable} is set: it {VARIABLES[variable]}", f"Run unset {variable}.")
    if facts.tracer_pid:
        found = True
        detail = f"process {facts.tracer_pid} traces this one (a debugger, strace), which slows it down"
        yield warning("tracer", detail, "Measure without it.")
    for watcher in facts.torch.watchers.names if facts.torch.watchers is not None else ():
        found = True
        detail = f"{watcher} watches every Python process here, which slows Python down"
        yield warning("tracer", detail, "Measure without it (a debugger, a coverage tool, another profiler).")
    if not found:
        yield ok("other profilers", "none is in the way")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:,.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:,.0f} MB"


SYSTEM_CHECKS: tuple[Callable[[MachineFacts], Iterable[Check]], ...] = (
    _python,
    _directory,
    _processors,
    _limits,
    _clock,
    _rivals,
)
