"""One step of a trace, event by event, ready to be drawn.

Owns which lanes a timeline has and what is left out of one that is too long. Knows no rule and no drawing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightning_perfwatch.trace.columns import BACKWARD, Bools, DeviceSpans, Ids, Ints, Spans
from lightning_perfwatch.trace.event import ABSENT
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.nesting import depths, parents
from lightning_perfwatch.trace.trace import DATALOADER_PREFIXES, Thread, Trace

MOST_EVENTS = 50_000
"""A timeline holds at most these; of more, the shortest are left out."""

LONGEST_NAME = 200
"""Names are cut to this many characters: those of templated kernels have thousands."""

KINDS = ("phases", "loader", "thread", "stream")
"""The kinds of lanes, in the order in which a timeline has them."""

_COMMUNICATION = ("nccl:", "gloo:", "ucc:", "mpi:", "xccl:")  # labels of single calls, not of phases
_NUM_DECIMALS = 3  # of microseconds; clocks tell nanoseconds


@dataclass(frozen=True)
class Lane:
    """The events of one thread, stream, loader or of the step's phases, in columns of one length, by begin.

    ``kind`` is ``phases``, ``loader``, ``thread`` or ``stream``. ``name_ids`` index :attr:`Timeline.names`,
    ``begin_us`` counts from the begin of the step, ``depths`` says how many events of the lane an event lies in.
    ``device`` is the index of the device that a stream is of.
    """

    name: str
    kind: str
    name_ids: tuple[int, ...]
    begin_us: tuple[float, ...]
    duration_us: tuple[float, ...]
    depths: tuple[int, ...]
    device: int | None = None


@dataclass(frozen=True)
class Timeline:
    """What host and devices did while the host was in step ``step`` (its number in the trace; None without steps).

    Events that reach beyond the step's ends are cut there. ``num_left_out`` events were too many and too short.
    """

    step: int | None
    duration_us: float
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    num_left_out: int = 0


class _Shown(NamedTuple):
    """What is shown: from when to when, of which step, and the row of its thread in `Trace.threads`."""

    step: int | None
    start_us: float
    end_us: float
    tid: int


class _Rows(NamedTuple):
    """Events of all lanes, in columns. `place` tells the lanes of a kind apart: a thread's row, a stream."""

    kind: Ints
    device: Ints
    place: Ints
    name: Ints | Ids
    start_us: Floats
    end_us: Floats

    def take(self, rows: Ints) -> _Rows:
        """Some of the rows, or all in another order."""
        return _Rows(**{name: column[rows] for name, column in self._asdict().items()})


def timeline(trace: Trace) -> Timeline | None:
    """The complete step of median length, event by event; without steps all of the trace. None where it has no length.

    Steps are the host's, or the device's where the trace has none of the host. Shown is what ran between the step's
    begin and its end, also on devices: a host that runs ahead has launched their work in an earlier step. The lanes
    are, as far as they hold anything: the annotations on the step's own thread (``phases``), the waits for the loader
    (``loader``), every host thread with its operators, runtime calls, calls of modules and other annotations
    (``thread``, the step's own first, then by the time they were at work), and every device's streams with its
    kernels, copies and fills (``stream``). The step's own annotation and Python functions are left out.
    """
    shown = _shown(trace)
    if not shown.end_us > shown.start_us:
        return None
    rows = _inside(trace, shown)
    num_left_out = max(0, len(rows.name) - MOST_EVENTS)
    if num_left_out:
        longest = np.argpartition(rows.start_us - rows.end_us, MOST_EVENTS)[:MOST_EVENTS]
        rows = rows.take(longest)
    used, name_ids = np.unique(rows.name, return_inverse=True)
    names = tuple(_short(trace.names[name]) for name in used.tolist())
    return Timeline(
        step=shown.step,
        duration_us=round(shown.end_us - shown.start_us, _NUM_DECIMALS),
        names=names,
        lanes=tuple(_lanes(trace, shown, rows._replace(name=name_ids.ravel()), names)),
        num_left_out=num_left_out,
    )


def _shown(trace: Trace) -> _Shown:
    on_host = len(trace.steps) > 0
    steps = trace.steps if on_host else trace.device_steps
    if len(steps) == 0:
        return _Shown(None, trace.start_us, trace.end_us, ABSENT)
    row = np.argsort(steps.dur_us, kind="stable")[(len(steps) - 1) // 2]
    tid = int(steps.tid[row]) if on_host else ABSENT
    return _Shown(int(steps.numbers[row]), float(steps.start_us[row]), float(steps.end_us[row]), tid)


def _inside(trace: Trace, shown: _Shown) -> _Rows:
    """The events between the ends, cut there; times are counted from the begin and rounded."""
    labels = trace.annotations
    is_loader = trace.named(labels, DATALOADER_PREFIXES)
    is_step = trace.named(labels, "ProfilerStep#")
    is_phase = (labels.tid == shown.tid) & ~(is_loader | is_step | trace.named(labels, _COMMUNICATION))
    parts = [
        _of_host(labels, "phases", shown, is_phase),
        _of_host(labels, "loader", shown, is_loader),
        _of_host(labels, "thread", shown, ~(is_phase | is_loader | is_step)),
        *(_of_host(spans, "thread", shown) for spans in (trace.ops, trace.runtime, trace.modules.calls)),
        *(_of_device(work, shown) for work in (trace.kernels, trace.copies, trace.fills)),
    ]
    rows = _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    begin, end = (
        np.round(np.clip(times, shown.start_us, shown.end_us) - shown.start_us, _NUM_DECIMALS)
        for times in (rows.start_us, rows.end_us)
    )
    return rows._replace(start_us=begin, end_us=end)


def _of_host(spans: Spans, kind: str, shown: _Shown, wanted: Bools | None = None) -> _Rows:
    overlap = _overlap(spans, shown)
    rows = np.flatnonzero(overlap if wanted is None else overlap & wanted)
    # All loaders share a lane, and so do the phases.
    place = spans.tid[rows].astype(np.int64) if kind == "thread" else np.zeros(len(rows), np.int64)
    return _rows(spans, rows, kind, np.full(len(rows), ABSENT), place)


def _of_device(work: DeviceSpans, shown: _Shown) -> _Rows:
    rows = np.flatnonzero(_overlap(work, shown))
    # The oldest files name the stream by the lane only; below -1 lie the rows of these.
    place = np.where(work.stream[rows] >= 0, work.stream[rows], -2 - work.tid[rows].astype(np.int64))
    return _rows(work, rows, "stream", work.device[rows].astype(np.int64), place)


def _rows(spans: Spans, rows: Ints, kind: str, device: Ints, place: Ints) -> _Rows:
    start = spans.start_us[rows]
    kinds = np.full(len(rows), KINDS.index(kind))
    return _Rows(kinds, device, place, spans.name[rows], start, start + spans.dur_us[rows])


def _overlap(spans: Spans, shown: _Shown) -> Bools:
    """Mask of the events that are at least in part inside, those of no length too."""
    start = spans.start_us
    reaches = start + spans.dur_us > shown.start_us
    return np.asarray((start < shown.end_us) & (reaches | (start == shown.start_us)), np.bool_)


def _lanes(trace: Trace, shown: _Shown, rows: _Rows, names: tuple[str, ...]) -> Iterator[Lane]:
    """The lanes in their order; `rows.name` indexes `names`."""
    rows = rows.take(np.lexsort((-rows.end_us, rows.start_us, rows.place, rows.device, rows.kind)))
    keys = np.stack((rows.kind, rows.device, rows.place))
    is_first = np.append(True, np.any(keys[:, 1:] != keys[:, :-1], axis=0))[: keys.shape[1]]
    number = np.cumsum(is_first, dtype=np.int32)
    depth = depths(parents(number, rows.start_us, rows.end_us))
    dur = np.round(rows.end_us - rows.start_us, _NUM_DECIMALS)
    busy_us = np.bincount(number, np.where(depth == 0, dur, 0.0))
    is_backward = np.fromiter((name.startswith(BACKWARD) for name in names), np.bool_, len(names))[rows.name]
    begins = np.flatnonzero(is_first)
    found = [slice(*ends) for ends in zip(begins.tolist(), [*begins[1:].tolist(), len(dur)], strict=True)]

    def order(part: slice) -> tuple[int, bool, float]:
        kind, _, place = keys[:, part.start].tolist()
        is_thread = KINDS[kind] == "thread"
        return kind, is_thread and place != shown.tid, -busy_us[number[part.start]] if is_thread else 0.0

    for part in sorted(found, key=order):
        kind, device, place = keys[:, part.start].tolist()
        yield Lane(
            name=_lane_name(trace, KINDS[kind], device, place)
            + (" (training)" if KINDS[kind] == "thread" and place == shown.tid else "")
            + (" (backward)" if place != shown.tid and is_backward[part].any() else ""),
            kind=KINDS[kind],
            name_ids=tuple(rows.name[part].tolist()),
            begin_us=tuple(rows.start_us[part].tolist()),
            duration_us=tuple(dur[part].tolist()),
            depths=tuple(depth[part].tolist()),
            device=device if device >= 0 else None,
        )


def _lane_name(trace: Trace, kind: str, device: int, place: int) -> str:
    if kind == "thread":
        return f"thread {_spelled(trace.threads[place])}"
    if kind == "stream":
        stream = f"stream {place}" if place >= 0 else _spelled(trace.threads[-2 - place])
        return f"device {device}, {stream}" if device >= 0 else stream
    return kind


def _spelled(thread: Thread) -> str:
    return _short("without a name" if thread.tid in (None, "") else str(thread.tid))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
