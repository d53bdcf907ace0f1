"""Builds the `Trace` from collected columns: sorts, finds the steps, throws out absurd times.

Knows how kinds of events differ; it knows neither the file's format nor any analysis.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.trace.collector import ARGUMENTS, INPUTS, Collector, Group
from lightning_perfwatch.trace.columns import (
    Allocations,
    Copies,
    DeviceSpans,
    Fills,
    Kernels,
    Kind,
    Operators,
    Runtime,
    Spans,
    is_annotation,
)
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.nesting import nested
from lightning_perfwatch.trace.steps import annotated_steps, host_steps
from lightning_perfwatch.trace.trace import Thread, Trace

_COPY = re.compile(r"([HDP]to[HDP])(?:\s*\((\w+) -> (\w+)\))?")
# "CopyHostToDevice" of older ROCm; "M2D" and "H2D" of XPU, where M is memory that the driver does not know.
_OTHER_COPY = re.compile(r"Copy(Host|Device)To(Host|Device)|\b([MHD])2([MHD])\b")
# Unfinished events have been seen with lengths that wrapped around zero. Nobody records a day.
_MAX_US = 86_400e6
_NUM_SAMPLES = 10_000  # of each kind of event, to find the middle of all times
_DTYPES: dict[str, npt.DTypeLike] = {
    "name": np.int32,
    "tid": np.int32,
    "start_us": np.float64,
    "dur_us": np.float64,
    "dims": np.int32,
    "types": np.int32,
    "hierarchy": np.int32,
    "correlation": np.int64,
    "device": np.int32,
    "stream": np.int64,
    "bytes": np.int64,
    "allocation_bytes": np.int64,
    "device_type": np.int32,
    "memory_device": np.int32,
    "allocated_bytes": np.int64,
    "reserved_bytes": np.int64,
    "blocks_per_sm": np.float64,
}
_ALWAYS = ("name", "tid", "start_us", "dur_us")
Columns = dict[str, npt.NDArray[Any]]


def build_trace(path: Path, metadata: dict[str, Any], collected: Collector, left_out: list[str]) -> Trace:
    """The trace of everything that was collected; takes the columns out of `collected`."""
    columns = {kind: _whole(kind, group) for kind, group in collected.groups.items()}
    left_out = left_out + _throw_out(columns, collected)
    shift_us, end_us = _shift(columns)
    names = tuple(collected.names)
    operators, annotations = _without_annotations(columns[Kind.OPERATOR], columns[Kind.ANNOTATION], names)
    op_parents, self_us = nested(operators["tid"], operators["start_us"], operators["dur_us"])
    ops = Operators(**operators, self_us=self_us)
    host, device = Spans(**annotations), Spans(**columns[Kind.DEVICE_ANNOTATION])
    steps, remarks = host_steps(host, names, ops, columns[Kind.RUNTIME]["start_us"])
    return Trace(
        path=path,
        metadata=metadata,
        num_events=collected.num_events,
        left_out=tuple(left_out + remarks),
        origin_us=float(collected.origin or 0) / collected.per_us + shift_us,
        start_us=0.0,
        end_us=end_us,
        names=names,
        threads=tuple(Thread(*lane) for lane in collected.lanes.numbers),
        inputs=tuple(text.decode("utf-8", "replace") for text in collected.inputs),
        steps=steps,
        device_steps=annotated_steps(device, names),
        ops=ops,
        op_parents=op_parents,
        kernels=Kernels(**columns[Kind.KERNEL]),
        copies=_copies(columns[Kind.COPY], names),
        fills=_fills(columns[Kind.FILL]),
        runtime=Runtime(**columns[Kind.RUNTIME]),
        annotations=host,
        device_annotations=device,
        python_frames=Spans(**columns[Kind.PYTHON]),
        allocations=_allocations(columns[Kind.MEMORY]),
    )


def _whole(kind: Kind, group: Group) -> Columns:
    """One group's columns, sorted by start."""
    keys = (*_ALWAYS, *(INPUTS if kind is Kind.OPERATOR else ARGUMENTS.get(kind, ())))
    columns = {key: group.column(key, _DTYPES[key]) for key in keys}
    start_us: Floats = columns["start_us"].astype(np.float64, copy=False)
    if np.all(start_us[:-1] <= start_us[1:]):
        return columns
    order = np.argsort(start_us, kind="stable")
    return {key: column[order] for key, column in columns.items()}


def _throw_out(columns: dict[Kind, Columns], collected: Collector) -> list[str]:
    """Drop, in place, the events whose times cannot be; say how many."""
    said = []
    if collected.num_untimed:
        said.append(f"{collected.num_untimed} events have no usable start or duration and were left out.")
    starts = np.concatenate(
        [group["start_us"][:: len(group["start_us"]) // _NUM_SAMPLES + 1] for group in columns.values()]
    )
    middle = float(np.median(starts[np.isfinite(starts)])) if np.isfinite(starts).any() else 0.0
    if unpaired := collected.pairing.num_unpaired:
        said.append(f"{unpaired} events begin without an end, or end without a begin, and were left out.")
    dropped = 0
    for kind, group in columns.items():
        start, dur = group["start_us"], group["dur_us"]
        # Written so that NaN fails, too.
        sane = (dur >= 0) & (dur < _MAX_US) & (np.abs(start - middle) < _MAX_US)
        if not sane.all():
            dropped += int(np.sum(~sane))
            columns[kind] = {key: column[sane] for key, column in group.items()}
    if dropped:
        said.append(f"{dropped} events have a negative or absurdly long time and were left out.")
    return said


def _shift(columns: dict[Kind, Columns]) -> tuple[float, float]:
    """Count all times from the first event, in place; return where that was and where the last one ends."""
    told = [group for kind, group in columns.items() if kind < Kind.OTHER and len(group["start_us"])]
    # The profiler's own spans ("Trace", overheads) reach over everything: they count where nothing else is.
    told = told or [group for group in columns.values() if len(group["start_us"])]
    if not told:
        return 0.0, 0.0
    first = min(float(group["start_us"][0]) for group in told)
    for group in columns.values():
        group["start_us"] = group["start_us"] - first
    return first, max(float(np.max(group["start_us"] + group["dur_us"])) for group in told)


def _without_annotations(ops: Columns, annotations: Columns, names: tuple[str, ...]) -> tuple[Columns, Columns]:
    """Operators, and annotations joined by those that the file calls operators."""
    labels = np.fromiter((is_annotation(name) for name in names), np.bool_, len(names))[ops["name"]]
    if not labels.any():
        return ops, annotations
    both = {key: np.concatenate((annotations[key], ops[key][labels])) for key in annotations}
    order = np.argsort(both["start_us"], kind="stable")
    return {key: column[~labels] for key, column in ops.items()}, {key: both[key][order] for key in both}


def _device_spans(columns: Columns) -> DeviceSpans:
    return DeviceSpans(**{key: column for key, column in columns.items() if key != "bytes"})


def _allocations(columns: Columns) -> Allocations:
    spans = {key: columns[key] for key in _ALWAYS}
    totals = {key: columns[key] for key in ("device_type", "allocated_bytes", "reserved_bytes")}
    return Allocations(**spans, **totals, num_bytes=columns["allocation_bytes"], device=columns["memory_device"])


def _fills(columns: Columns) -> Fills:
    return Fills(**vars(_device_spans(columns)), num_bytes=columns["bytes"])


def _copies(columns: Columns, names: tuple[str, ...]) -> Copies:
    """Direction and memory kinds stand in the name: "Memcpy HtoD (Pageable -> Device)"."""
    rows = columns["name"]
    matches = [_COPY.search(names[row]) for row in range(len(names))] if len(rows) else []
    direction = np.array(
        [match[1] if match else _other_direction(names[row]) for row, match in enumerate(matches)], "<U4"
    )
    hosts = [{match[2], match[3]} if match else set() for match in matches]
    pageable = np.array(["Pageable" in host for host in hosts], np.bool_)
    pinned = np.array(["Pinned" in host for host in hosts], np.bool_)
    fills = _fills(columns)
    return Copies(**vars(fills), direction=direction[rows], pageable=pageable[rows], pinned=pinned[rows])


def _other_direction(name: str) -> str:
    found = _OTHER_COPY.search(name)
    if found is None:
        return ""
    source, target = ((found[1] or found[3])[0], (found[2] or found[4])[0])
    return f"{source}to{target}".replace("M", "H")
