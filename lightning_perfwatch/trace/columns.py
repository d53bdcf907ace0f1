"""The columns of a trace: frozen groups of equally long numpy arrays, one row per event.

Owns how an event's category and name say what kind of event it is; it knows no file and no analysis.
Names are ids into `Trace.names`, threads ids into `Trace.threads`, times float64 microseconds.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.trace.intervals import Floats, pairs

Ints: TypeAlias = npt.NDArray[np.int64]
Ids: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]
Strings: TypeAlias = npt.NDArray[np.str_]

SpansT = TypeVar("SpansT", bound="Spans")


class Kind(IntEnum):
    """What an event is, whatever the file calls it."""

    OPERATOR = 0
    ANNOTATION = 1
    DEVICE_ANNOTATION = 2
    KERNEL = 3
    COPY = 4
    FILL = 5
    RUNTIME = 6
    PYTHON = 7
    OTHER = 8
    MEMORY = 9


# Spellings of Kineto since torch 1.8 (`Operator`, `Kernel`, `Runtime`, `Memcpy`, `Memset` are the oldest).
_KINDS = {
    "cpu_op": Kind.OPERATOR,
    "operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "kernel": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "memcpy": Kind.COPY,
    "gpu_memset": Kind.FILL,
    "memset": Kind.FILL,
    "runtime": Kind.RUNTIME,
    "driver": Kind.RUNTIME,
    "python_function": Kind.PYTHON,
}

BACKWARD = "autograd::engine::evaluate_function: "
"""What the name of a node of the backward pass begins with."""

# Labels that some torch versions write with the category of an operator. "[pl]" is Lightning's own prefix.
_ANNOTATION = re.compile(
    r"ProfilerStep#|enumerate\(Data(?:Loader|Pipe)\)#|Optimizer\.(?:step|zero_grad)#|\[pl\]"
    r"|(?:nccl|gloo|ucc|mpi|xccl):"
)


def kind_of(category: str, pid: object) -> Kind:
    """The kind of a timed event; the oldest exports have no category and tell the device by their `pid`."""
    name = category.lower()
    if not name:
        return Kind.KERNEL if pid == "CUDA functions" else Kind.OPERATOR
    if name in _KINDS:
        return _KINDS[name]
    # cuda_runtime, cuda_driver, hip_runtime, xpu_runtime, mtia_runtime, privateuse1_runtime ...
    return Kind.RUNTIME if name.endswith(("_runtime", "_driver")) else Kind.OTHER


def is_annotation(name: str) -> bool:
    """True for the labels that the framework sets around operators, whatever their category says."""
    return _ANNOTATION.match(name) is not None


@dataclass(frozen=True, eq=False)
class Spans:
    """Timed events on a lane: `tid` is an index into `Trace.threads` (one per process and thread)."""

    name: Ids
    tid: Ids
    start_us: Floats
    dur_us: Floats

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.start_us)

    @property
    def end_us(self) -> Floats:
        """Where each event ends."""
        return self.start_us + self.dur_us

    @property
    def intervals(self) -> Floats:
        """Shape (n, 2), for `trace.intervals`."""
        return pairs(self.start_us, self.end_us)

    def take(self: SpansT, rows: npt.NDArray[Any]) -> SpansT:
        """The rows of a mask or an index array; all of them are these columns themselves."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return type(self)(**{key: column[rows] for key, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Operators(Spans):
    """Host operators; `self_us` is the time in which no other operator of its thread ran inside it.

    `dims` and `types` are ids into `Trace.inputs`, ABSENT (-1) where the profiler recorded no shapes; so is
    `hierarchy`, the module's path in a scripted model ("TOP(Net)::forward.fc"), which `with_modules` records.
    """

    dims: Ids
    types: Ids
    hierarchy: Ids
    self_us: Floats


@dataclass(frozen=True, eq=False)
class Runtime(Spans):
    """Calls into the device's runtime or driver; `correlation` joins them to what they started."""

    correlation: Ints


@dataclass(frozen=True, eq=False)
class DeviceSpans(Spans):
    """Work on a device: kernels, copies or fills. ABSENT (-1) where the file says nothing."""

    correlation: Ints
    device: Ids
    stream: Ints


@dataclass(frozen=True, eq=False)
class Kernels(DeviceSpans):
    """Kernels; `blocks_per_sm` is the size of the grid over the device's multiprocessors, NaN where not told."""

    blocks_per_sm: Floats


@dataclass(frozen=True, eq=False)
class Fills(DeviceSpans):
    """Memory fills (memset)."""

    num_bytes: Ints


@dataclass(frozen=True, eq=False)
class Copies(Fills):
    """Copies: `direction` is HtoD, DtoH, DtoD, PtoP, HtoH or empty; the host's memory as the name says."""

    direction: Strings
    pageable: Bools
    pinned: Bools


@dataclass(frozen=True, eq=False)
class Allocations(Spans):
    """What the memory allocators did (`profile_memory`), in order of time; `dur_us` is 0.

    `num_bytes` is negative for a free. `device_type` is torch's number (0 CPU, 1 CUDA and ROCm, 12 XPU ...),
    `device` the index, -1 on the CPU. `allocated_bytes` and `reserved_bytes` are the
    allocator's totals after it, ABSENT (-1) in the oldest files; the reserve of the CPU is always 0.
    """

    num_bytes: Ints
    device_type: Ids
    device: Ids
    allocated_bytes: Ints
    reserved_bytes: Ints


@dataclass(frozen=True, eq=False)
class Steps:
    """Host steps, in order of time, each with the thread that it ran on.

    `source` is "profiler" where they are `ProfilerStep#N` annotations, with their numbers, or "optimizer" where
    the trace has none and a step is what lies between the ends of two optimizer steps, counted from 1.
    """

    numbers: Ints
    tid: Ids
    start_us: Floats
    end_us: Floats
    source: str = "profiler"

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def dur_us(self) -> Floats:
        """How long the host was in each step; on an asynchronous device not the step's time."""
        return self.end_us - self.start_us

    @property
    def intervals(self) -> Floats:
        """Shape (n, 2), for `trace.intervals`."""
        return pairs(self.start_us, self.end_us)

    def take(self, rows: npt.NDArray[Any]) -> "Steps":
        """The rows of a mask or an index array."""
        return Steps(self.numbers[rows], self.tid[rows], self.start_us[rows], self.end_us[rows], self.source)

    def index_of(self, times_us: Floats) -> Ints:
        """For each time the row of the step that holds it, or -1."""
        if len(self) == 0:
            return np.full(len(times_us), -1, dtype=np.int64)
        at = np.searchsorted(self.start_us, times_us, side="right") - 1
        inside = (at >= 0) & (times_us < self.end_us[np.maximum(at, 0)])
        return np.where(inside, at, -1).astype(np.int64)


def _freeze(columns: object) -> None:
    """A frozen dataclass keeps its arrays, but numpy would still let them be written to."""
    for column in vars(columns).values():
        if isinstance(column, np.ndarray):
            column.flags.writeable = False
