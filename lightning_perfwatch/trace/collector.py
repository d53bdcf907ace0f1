"""Gathers decoded events into numpy columns, one group per kind of event, list by list.

Holds numbers and interned names only, never the events; knows no file and no analysis.
"""

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
# Before this the oldest files were written in 1970: timestamps of 1e17 can only be nanoseconds since then.
_NANOSECONDS_FROM = 10**17


class Interned(dict[KeyT, int]):
    """Numbers its keys in the order in which they are first asked for."""

    def __missing__(self, key: KeyT) -> int:
        number = self[key] = len(self)
        return number


class Lanes(dict[object, "Threads"]):
    """Numbers the lanes, by process and then by thread: `lanes[pid][tid]`; no tuple is made for an event.

    The oldest files write one thread both as 25738 and as "25738".
    """

    def __init__(self) -> None:
        self.numbers: Interned[tuple[int | str | None, int | str | None]] = Interned()

    def __missing__(self, pid: object) -> "Threads":
        threads = self[pid] = Threads(pid, self.numbers)
        return threads


class Threads(dict[object, int]):
    """The numbers of one process' lanes, by thread."""

    def __init__(self, pid: object, numbers: Interned[tuple[int | str | None, int | str | None]]) -> None:
        self._pid = _plain(pid)
        self._numbers = numbers

    def __missing__(self, tid: object) -> int:
        number = self[tid] = self._numbers[self._pid, _plain(tid)]
        return number


class Kinds(dict[str | None, int]):
    """The number of each category's kind, asked for once; a plain int, which numpy converts three times as fast."""

    def __missing__(self, category: str | None) -> int:
        number = self[category] = int(kind_of(category or "", None))
        return number


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
        self.names: Interned[str] = Interned()
        self.inputs: Interned[bytes] = Interned()
        self.lanes = Lanes()
        self.num_events = 0
        self.num_timed = 0
        self.num_untimed = 0  # timed by their phase, but without a usable time
        self.origin = origin
        self.per_us = per_us
        self.pairing = Pairing()
        self._kinds = Kinds()

    def add(self, events: list[Event]) -> None:
        """Take the timed events of one list."""
        self.num_events += len(events)
        timed = [event for event in events if event.ph == "X" and event.ts is not None and event.dur is not None]
        if len(timed) < len(events):
            others = [event for event in events if event.ph != "X"]
            self.num_untimed += len(events) - len(others) - len(timed)
            timed += self._add_others(others)
        if not timed:
            return
        self.num_timed += len(timed)
        kinds = self._kinds_of(timed)
        columns = self._columns(timed)
        for kind in map(Kind, np.unique(kinds).tolist()):
            rows = np.flatnonzero(kinds == kind)
            chosen = {key: column[rows] for key, column in columns.items()}
            if kind in ARGUMENTS:
                chosen |= _arguments([timed[row] for row in rows.tolist()], ARGUMENTS[kind])
            elif kind is Kind.OPERATOR:
                chosen |= self._inputs([timed[row] for row in rows.tolist()])
            self.groups[kind].add(chosen)

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

    def _add_others(self, events: list[Event]) -> list[Event]:
        """Take the allocators' events; return the spans that end here and have a time."""
        memory = [e for e in events if e.ph == "i" and e.name == "[memory]" and e.ts is not None]
        if memory:
            self.groups[Kind.MEMORY].add(self._columns(memory) | _arguments(memory, ARGUMENTS[Kind.MEMORY]))
        phases = set(map(attrgetter("ph"), events))
        spans = self.pairing.spans(events) if "B" in phases or "E" in phases else []
        timed = [span for span in spans if span.ts is not None and span.dur is not None]
        self.num_untimed += len(spans) - len(timed)
        return timed

    def _kinds_of(self, timed: list[Event]) -> npt.NDArray[np.int8]:
        kinds = self._kinds
        found = np.array([kinds[event.cat] for event in timed], np.int8)
        if None in kinds:  # the oldest exports tell the device by the process
            for row, event in enumerate(timed):
                if event.cat is None:
                    found[row] = kind_of("", event.pid)
        return found

    def _columns(self, timed: list[Event]) -> dict[str, npt.NDArray[np.generic]]:
        names, lanes = self.names, self.lanes
        if self.origin is None:
            self.origin = next((event.ts for event in timed if abs(event.ts or 0) < 2**63), 0) or 0
            if isinstance(self.origin, int) and self.origin >= _NANOSECONDS_FROM:
                self.per_us = 1000
        return {
            "name": np.array([names[event.name] for event in timed], np.int32),
            "tid": np.array([lanes[event.pid][event.tid] for event in timed], np.int32),
            # Counted from the first event, so that float64 keeps fractions of a nanosecond.
            "start_us": _since(self.origin, [event.ts or 0 for event in timed]) / self.per_us,
            "dur_us": _since(0, [event.dur or 0 for event in timed]) / self.per_us,
        }

    def _inputs(self, events: list[Event]) -> dict[str, npt.NDArray[np.generic]]:
        inputs = self.inputs
        columns: dict[str, npt.NDArray[np.generic]] = {}
        args = [event.args or _NO_ARGS for event in events]
        for key in INPUTS:
            texts = list(map(attrgetter(key), args))
            if texts.count(NOTHING) == len(texts):
                columns[key] = np.full(len(texts), ABSENT, np.int32)
                continue
            ids = [ABSENT if text is NOTHING else inputs[bytes(text)] for text in texts]
            columns[key] = np.array(ids, np.int32)
        return columns


def _translation(into: Interned[KeyT], numbered: Interned[KeyT]) -> npt.NDArray[np.int32]:
    """For each number of `numbered` that of `into`; the last stands for ABSENT, which is -1."""
    return np.array([*(into[key] for key in numbered), ABSENT], np.int32)


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


def _since(origin: int | float, times: list[int | float]) -> Floats:
    """A column of differences. Integers subtract exactly, beyond the 2**53 of a float.

    Integers beyond any float become infinite, which no event's time can be.
    """
    column = np.array(times)
    if column.dtype == np.float64 and abs(origin) < 2**53:
        return np.asarray(column - origin, np.float64)
    try:
        return np.array([time - origin for time in times], np.float64)
    except OverflowError:
        return np.array([time - origin if abs(time) < 2**63 else np.inf for time in times], np.float64)


def _bounded(value: object) -> int:
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else ABSENT


def _plain(value: object) -> int | str | None:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else value
    return int(value) if isinstance(value, int | float) else None
