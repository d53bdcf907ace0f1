"""Gathers decoded events into numpy columns, one group per kind of event, list by list.

Holds numbers and interned names only, never the events; knows no file and no analysis.
"""

import itertools
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.trace.columns import Kind, kind_of
from lightning_perfwatch.trace.event import ABSENT, NOTHING, Args, Event
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.pairing import Pairing

KeyT = TypeVar("KeyT")

_ON_DEVICE = ("correlation", "device", "stream")
# Which arguments become columns, by kind.
ARGUMENTS: dict[Kind, tuple[str, ...]] = {
    Kind.RUNTIME: ("correlation",),
    Kind.KERNEL: (*_ON_DEVICE, "blocks_per_sm"),
    Kind.COPY: (*_ON_DEVICE, "bytes"),
    Kind.FILL: (*_ON_DEVICE, "bytes"),
    Kind.MEMORY: ("allocation_bytes", "device_type", "memory_device", "allocated_bytes", "reserved_bytes"),
}
_FLOATS = ("blocks_per_sm",)
# Texts of operators, kept as ids into `Collector.inputs`.
INPUTS = ("dims", "types", "hierarchy")
_NO_ARGS = Args()
_OTHERS = ("B", "E", "i")  # the phases beside "X" that tell something; arrows ("s", "f") are most of the rest
_TIMED = ("X", "B", "i")  # those of which names and times are kept
# Before this the oldest files were written in 1970: timestamps of 1e17 can only be nanoseconds since then.
_NANOSECONDS_FROM = 10**17


class Interned(dict[KeyT, int]):
    """Numbers its keys in the order in which they are first asked for."""

    def __missing__(self, key: KeyT) -> int:
        number = self[key] = len(self)
        return number


class Lanes:
    """Numbers the lanes, by process and then by thread: `by_pid[pid][tid]`; no tuple is made for an event.

    The oldest files write one thread both as 25738 and as "25738".
    """

    def __init__(self) -> None:
        self.numbers: Interned[tuple[int | str | None, int | str | None]] = Interned()
        self.by_pid: dict[object, dict[object, int]] = {}

    def learn(self, pid: object, tid: object) -> None:
        """Number a lane under this spelling."""
        self.by_pid.setdefault(pid, {})[tid] = self.numbers[_plain(pid), _plain(tid)]


@dataclass
class Group:
    """Columns of one kind, as a list of arrays per column."""

    parts: dict[str, list[npt.NDArray[np.generic]]] = field(default_factory=dict)

    def add(self, columns: dict[str, npt.NDArray[np.generic]]) -> None:
        """Append rows."""
        for key, column in columns.items():
            self.parts.setdefault(key, []).append(column)

    def join(self) -> None:
        """Make one array of each column's list: less to send to another process."""
        self.parts = {key: [np.concatenate(parts)] for key, parts in self.parts.items() if parts}

    def column(self, key: str, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """The whole column, which is then no longer kept here."""
        parts = self.parts.pop(key, [])
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


class Collector:
    """Takes lists of events; keeps the timed ones and the allocators' as columns.

    Times are counted from `origin`, in units of which a microsecond has `per_us`; without one the first event decides.
    """

    def __init__(self, origin: float | int | None = None, per_us: int = 1) -> None:
        self.groups = {kind: Group() for kind in Kind}
        # Plain dictionaries where an event asks: one that numbers what it misses takes half as long again to ask.
        self.names: dict[str, int] = {}
        self.inputs: Interned[bytes] = Interned()
        self.lanes = Lanes()
        self.num_events = 0
        self.num_timed = 0
        self.num_untimed = 0  # timed by their phase, but without a usable time
        self.origin = origin
        self.per_us = per_us
        self.pairing = Pairing()
        self._kinds: dict[str | None, int] = {}

    def add(self, events: list[Event]) -> None:
        """Take the timed events of one list."""
        self.num_events += len(events)
        try:
            spans, others = self._by_kind(events)
        except KeyError:
            self._kinds |= {event.cat: kind_of(event.cat or "", None) for event in events}
            spans, others = self._by_kind(events)
        for span in self._add_others(others) if others else ():
            spans[self._kinds.setdefault(span.cat, kind_of(span.cat or "", None))].append(span)
        if None in self._kinds:
            _tell_by_process(spans)
        self._find_origin(events)
        for kind, rows in enumerate(spans):
            if not rows:
                continue
            try:
                columns = self._columns(rows)
            except KeyError:
                # The whole list at once, so that numbers go by the order of the file, however it was cut into lists.
                self._learn(itertools.chain(events, *spans))
                columns = self._columns(rows)
            self._add_spans(Kind(kind), rows, columns)

    def absorb(self, other: "Collector") -> None:
        """Take the columns of `other`, which has collected the events behind these with the same origin."""
        names = _translation(self.names, other.names)
        inputs = _translation(self.inputs, other.inputs)
        lanes = _translation(self.lanes.numbers, other.lanes.numbers)
        tables = {"name": names, "tid": lanes, **dict.fromkeys(INPUTS, inputs)}
        for kind, group in other.groups.items():
            for key, parts in group.parts.items():
                table = tables.get(key)
                known = parts if table is None else [table[part] for part in parts]
                self.groups[kind].parts.setdefault(key, []).extend(known)
        self.num_events += other.num_events
        self.num_timed += other.num_timed
        self.num_untimed += other.num_untimed

    def _by_kind(self, events: list[Event]) -> tuple[list[list[Event]], list[Event]]:
        """The spans by the number of their kind, and the others of use; KeyError for a category not met before."""
        kinds = self._kinds
        spans: list[list[Event]] = [[] for _ in Kind]
        others = []
        for event in events:
            if event.ph == "X":
                spans[kinds[event.cat]].append(event)
            elif event.ph in _OTHERS:
                others.append(event)
        return spans, others

    def _add_others(self, events: list[Event]) -> list[Event]:
        """Take the allocators' events; return the spans that end here."""
        memory = [e for e in events if e.ph == "i" and e.name == "[memory]" and e.ts is not None]
        if memory:
            self._find_origin(memory)
            self._learn(memory)
            columns = self._columns(memory) | _arguments(memory, ARGUMENTS[Kind.MEMORY])
            self.groups[Kind.MEMORY].add(columns | {"dur_us": np.zeros(len(memory))})
        return self.pairing.spans(events)

    def _find_origin(self, events: list[Event]) -> None:
        """Count times from the first event that has one; later events change nothing."""
        if self.origin is None:
            timed = (event.ts for event in events if event.ph in _TIMED and event.ts is not None)
            self.origin = next((ts for ts in timed if abs(ts) < 2**63), None)
            if isinstance(self.origin, int) and self.origin >= _NANOSECONDS_FROM:
                self.per_us = 1000

    def _learn(self, events: Iterable[Event]) -> None:
        """Number the names and the lanes of the timed events that have no number yet."""
        names, lanes = self.names, self.lanes.by_pid
        for event in events:
            if (event.name not in names or event.tid not in lanes.get(event.pid, ())) and event.ph in _TIMED:
                names.setdefault(event.name, len(names))
                self.lanes.learn(event.pid, event.tid)

    def _columns(self, events: list[Event]) -> dict[str, npt.NDArray[np.generic]]:
        """What every kind has; KeyError for a name or a lane that has no number yet."""
        names, lanes = self.names, self.lanes.by_pid
        return {
            "name": np.array([names[event.name] for event in events], np.int32),
            "tid": np.array([lanes[event.pid][event.tid] for event in events], np.int32),
            # Counted from the first event, so that float64 keeps fractions of a nanosecond.
            "start_us": _since(self.origin or 0, [event.ts for event in events]) / self.per_us,
            "dur_us": _since(0, [event.dur for event in events]) / self.per_us,
        }

    def _add_spans(self, kind: Kind, events: list[Event], columns: dict[str, npt.NDArray[np.generic]]) -> None:
        """Take events of one kind with their columns; those without a time are counted only."""
        if any(np.isnan(columns[key]).any() for key in ("start_us", "dur_us")):
            timed = [row for row, event in enumerate(events) if event.ts is not None and event.dur is not None]
            self.num_untimed += len(events) - len(timed)
            events = [events[row] for row in timed]
            columns = {key: column[timed] for key, column in columns.items()}
        self.num_timed += len(events)
        if kind in ARGUMENTS:
            columns |= _arguments(events, ARGUMENTS[kind])
        elif kind is Kind.OPERATOR:
            columns |= self._inputs(events)
        self.groups[kind].add(columns)

    def _inputs(self, events: list[Event]) -> dict[str, npt.NDArray[np.generic]]:
        args = [event.args or _NO_ARGS for event in events]
        told = (a for a in args if a.dims is not NOTHING or a.types is not NOTHING or a.hierarchy is not NOTHING)
        if next(told, None) is None:
            return dict.fromkeys(INPUTS, np.full(len(args), ABSENT, np.int32))
        inputs = self.inputs
        columns: dict[str, npt.NDArray[np.generic]] = {}
        for key in INPUTS:
            texts = map(attrgetter(key), args)
            ids = [ABSENT if text is NOTHING else inputs[bytes(text)] for text in texts]
            columns[key] = np.array(ids, np.int32)
        return columns


def _tell_by_process(spans: list[list[Event]]) -> None:
    """Move the kernels of the oldest exports, which have no category and tell the device by the process, in place."""
    operators, kernels = spans[Kind.OPERATOR], spans[Kind.KERNEL]
    kinds = [kind_of("", event.pid) if event.cat is None else Kind.OPERATOR for event in operators]
    kernels += [event for event, kind in zip(operators, kinds, strict=True) if kind is Kind.KERNEL]
    spans[Kind.OPERATOR] = [event for event, kind in zip(operators, kinds, strict=True) if kind is Kind.OPERATOR]


def _translation(into: dict[KeyT, int], numbered: Iterable[KeyT]) -> npt.NDArray[np.int32]:
    """For each number of `numbered` that of `into`; the last stands for ABSENT, which is -1."""
    return np.array([*(into.setdefault(key, len(into)) for key in numbered), ABSENT], np.int32)


def _arguments(events: list[Event], keys: tuple[str, ...]) -> dict[str, npt.NDArray[np.generic]]:
    args = [event.args or _NO_ARGS for event in events]
    columns: dict[str, npt.NDArray[np.generic]] = {}
    for key in keys:
        values = list(map(attrgetter(key), args))
        if key in _FLOATS:
            sane = [np.nan if value is None or not abs(value) < 2**63 else value for value in values]
            columns[key] = np.array(sane, np.float64)
            continue
        try:
            columns[key] = np.array(values, np.int64)
        except (TypeError, OverflowError):
            columns[key] = np.array([_bounded(value) for value in values], np.int64)
    if "device" in columns and np.any(unknown := columns["device"] == ABSENT):
        # Without arguments (the oldest exports) the lane says which device it is.
        lanes = [_bounded(event.pid if isinstance(event.pid, int) else event.tid) for event in events]
        columns["device"] = np.where(unknown, np.array(lanes, np.int64), columns["device"])
    return columns


def _since(origin: int | float, times: list[int | float | None]) -> Floats:
    """A column of differences, NaN where there is no time. Integers subtract exactly, beyond the 2**53 of a float.

    Integers beyond any float become infinite, which no event's time can be.
    """
    if abs(origin) < 2**53:
        with suppress(OverflowError):
            return np.asarray(np.array(times, np.float64) - origin, np.float64)
    return np.array([_difference(time, origin) for time in times], np.float64)


def _difference(time: int | float | None, origin: int | float) -> float:
    if time is None:
        return np.nan
    return float(time - origin) if abs(time) < 2**63 else np.inf


def _bounded(value: object) -> int:
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else ABSENT


def _plain(value: object) -> int | str | None:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else value
    return int(value) if isinstance(value, int | float) else None
