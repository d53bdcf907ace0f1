"""`Trace`: what one profiler file holds, as immutable columns, with the joins between them.

It knows neither the file's format nor what its numbers mean for speed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from lightning_perfwatch.trace.columns import (
    Allocations,
    Bools,
    Copies,
    DeviceSpans,
    Fills,
    Ints,
    Kernels,
    Operators,
    Runtime,
    Spans,
    Steps,
)
from lightning_perfwatch.trace.event import ABSENT
from lightning_perfwatch.trace.first_rows import FirstRows
from lightning_perfwatch.trace.intervals import Floats, union
from lightning_perfwatch.trace.modules import Modules, find_modules
from lightning_perfwatch.trace.nesting import enclosing

ArgsT = ParamSpec("ArgsT")
ResultT = TypeVar("ResultT")

DATALOADER_PREFIXES = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")

# Calls that return only when the device has done something. Those of XPU are its unified runtime's.
_SYNCHRONISING = re.compile(
    r"(?:cuda|cu|hip)(?:Stream|Device|Event|Ctx)Synchronize(?:_ptsz|_v\d+)?"
    r"|(?:cuda|hip|cu)Memcpy(?:2D|3D|HtoD|DtoH|DtoD|WithStream)?(?:_v2|_ptds)?"
    r"|ur(?:QueueFinish|EventWait)|ze(?:CommandQueue|CommandList|Event)(?:Host)?Synchronize"
)


class Thread(NamedTuple):
    """A lane of the file: a host thread, or a stream of a device."""

    pid: int | str | None
    tid: int | str | None


@dataclass(frozen=True, eq=False)
class Trace:
    """One trace. Times are microseconds from its first event, which the file puts at `origin_us`.

    `names`, `threads` and `inputs` are what the ids in the columns stand for; an entry of `inputs` is the JSON
    text of one operator's `Input Dims` or `Input type`. `op_parents` has for each row of `ops` the row of the operator
    around it on its thread, -1 for the outermost.
    """

    path: Path
    metadata: dict[str, Any]
    num_events: int
    left_out: tuple[str, ...]
    origin_us: float
    start_us: float
    end_us: float
    names: tuple[str, ...]
    threads: tuple[Thread, ...]
    inputs: tuple[str, ...]
    steps: Steps
    device_steps: Steps
    ops: Operators
    op_parents: Ints
    kernels: Kernels
    copies: Copies
    fills: Fills
    runtime: Runtime
    annotations: Spans
    device_annotations: Spans
    python_frames: Spans
    allocations: Allocations

    @property
    def rank(self) -> int | None:
        """The rank that wrote the file, None where it does not say (single processes don't)."""
        info = self.metadata.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        return rank if isinstance(rank, int) and not isinstance(rank, bool) else None

    @property
    def base_time_ns(self) -> int | None:
        """Unix time that the file's timestamps count from, None where they are absolute or unknown."""
        base = self.metadata.get("baseTimeNanoseconds")
        return base if isinstance(base, int) else None

    @cached_property
    def device_names(self) -> dict[int, str]:
        """Device index to its name, for the devices that the file describes."""
        described = self.metadata.get("deviceProperties")
        found = {}
        for device in described if isinstance(described, list) else ():
            if isinstance(device, dict) and isinstance(device.get("id"), int) and device.get("name"):
                found[device["id"]] = str(device["name"])
        return found

    def device_name(self, index: int) -> str | None:
        """The name of a device; where the file numbers devices otherwise (ROCm), its only model."""
        models = set(self.device_names.values())
        return self.device_names.get(index) or (models.pop() if len(models) == 1 else None)

    @cached_property
    def device_work(self) -> DeviceSpans:
        """Kernels, copies and fills together, in this order."""
        parts: tuple[DeviceSpans, ...] = (self.kernels, self.copies, self.fills)
        fields = DeviceSpans.__dataclass_fields__
        return DeviceSpans(**{key: np.concatenate([getattr(part, key) for part in parts]) for key in fields})

    def work_of(self, device: int) -> DeviceSpans:
        """The rows of `device_work` of one device, in order of time; the same object each time."""
        return _work_of(self, device)

    @cached_property
    def worked_out(self) -> dict[object, Any]:
        """What :func:`once` has kept."""
        return {}

    @cached_property
    def dataloader(self) -> Spans:
        """Host time in the data loader's `__next__`, whatever category the file gives it."""
        return self.annotations.take(self.named(self.annotations, DATALOADER_PREFIXES))

    @cached_property
    def ops_covered(self) -> Floats:
        """Where any thread of the host ran an operator; a union."""
        return union(self.ops.intervals)

    @cached_property
    def host_active(self) -> Floats:
        """Where any thread of the host ran an operator or a runtime call, or waited for data; a union."""
        parts = (self.ops_covered, union(self.runtime.intervals), union(self.dataloader.intervals))
        return union(np.concatenate(parts))

    @cached_property
    def syncs(self) -> Runtime:
        """Runtime calls that may make the host wait: synchronisations, blocking and to-host copies."""
        blocking = self.matching(self.runtime, lambda name: _SYNCHRONISING.fullmatch(name) is not None)
        # One into pinned memory is waited for, if at all, by a call of its own.
        to_host = self.copies.take((self.copies.direction == "DtoH") & ~self.copies.pinned)
        calls = self.launches(to_host)
        to_host, calls = to_host.take(calls >= 0), calls[calls >= 0]
        blocking[calls[to_host.pageable | (self.runtime.end_us[calls] >= to_host.end_us)]] = True
        if len(self.steps):
            # The profiler itself waits for the device when it stops.
            blocking &= self.runtime.start_us < self.steps.end_us.max()
        return self.runtime.take(blocking)

    def per_step(self, count: float) -> float | None:
        """Of what was counted in the complete steps the part of one; None without steps."""
        return count / len(self.steps) if len(self.steps) else None

    def named(self, spans: Spans, prefixes: str | tuple[str, ...]) -> Bools:
        """Mask of the rows whose name starts with one of the prefixes."""
        return self.matching(spans, lambda name: name.startswith(prefixes))

    def matching(self, spans: Spans, wanted: Callable[[str], bool]) -> Bools:
        """Mask of the rows whose name is wanted; asks once per name, not once per row."""
        hits = np.fromiter((wanted(name) for name in self.names), np.bool_, len(self.names))
        return np.asarray(hits[spans.name], dtype=np.bool_)

    def launches(self, work: DeviceSpans) -> Ints:
        """For each row of device work the row in `runtime` that started it, or -1 where there is no record.

        Work launched before the recording has none; a graph launch starts many kernels; a correlation id that
        several calls share belongs to the first of them.
        """
        return self.call_of.rows(work.correlation)

    def launching_ops(self, work: DeviceSpans) -> Ints:
        """For each row of device work the row in `ops` that launched it, or -1 where that is not known.

        That is the innermost operator on the launching call's thread at the call's start. The file's external
        ids say the same where they can be believed: in seven of the shared traces they name the same operator
        for all of 24,425 kernels, copies and fills; in the other four an operator that had ended before, or none.
        """
        calls = self.launches(work)
        if len(self.runtime) == 0:
            return calls
        return np.where(calls >= 0, self._ops_of_calls[calls], ABSENT)

    @cached_property
    def _ops_of_calls(self) -> Ints:
        return self.ops_of(self.runtime)

    def ops_of(self, spans: Spans) -> Ints:
        """For each host event the row in `ops` of the innermost operator that it began in, on its thread, or -1."""
        return enclosing(self.ops, spans.tid, spans.start_us, self.op_parents)

    @cached_property
    def modules(self) -> Modules:
        """The calls of modules; none where the trace was recorded without Python frames."""
        return find_modules(self.python_frames, self.names)

    def modules_of(self, spans: Spans) -> Ints:
        """For each host event the row in `modules` of the innermost call that it began in, or -1.

        The backward pass runs outside of the modules' calls, so its operators have none.
        """
        return enclosing(self.modules.calls, spans.tid, spans.start_us)

    @cached_property
    def call_of(self) -> FirstRows:
        """The row in `runtime` of each correlation id; 0 and what is below it are none."""
        return FirstRows.of(self.runtime.correlation)

    def launched_us(self, work: DeviceSpans) -> Floats:
        """For each row of device work when the host began to launch it, NaN where there is no record."""
        rows = self.launches(work)
        if len(self.runtime) == 0:
            return np.full(len(work), np.nan)
        return np.where(rows >= 0, self.runtime.start_us[rows], np.nan)


def once(function: Callable[Concatenate[Trace, ArgsT], ResultT]) -> Callable[Concatenate[Trace, ArgsT], ResultT]:
    """Work `function` out once for a trace and equal arguments; the trace keeps them and the result.

    So arguments are plain values, as a device's index: columns that were made for one question would all be kept.
    """

    @wraps(function)
    def kept(trace: Trace, /, *args: ArgsT.args, **kwargs: ArgsT.kwargs) -> ResultT:
        key = (function, args, tuple(kwargs.items()))
        if key not in trace.worked_out:
            trace.worked_out[key] = function(trace, *args, **kwargs)
        result: ResultT = trace.worked_out[key]
        return result

    return kept


@once
def _work_of(trace: Trace, device: int) -> DeviceSpans:
    work = trace.device_work.take(trace.device_work.device == device)
    return work.take(np.argsort(work.start_us, kind="stable"))
