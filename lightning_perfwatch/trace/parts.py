"""One large trace read by several processes: each decodes a range of the file, and their columns are joined.

Owns where the file is cut and the life of the children. A cut is believed only if everything up to it was read as
whole events; a file of which that is not true is for one process. Knows no analysis.
"""

from __future__ import annotations

import itertools
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from lightning_perfwatch.processes import answer_pipe, start_child
from lightning_perfwatch.trace.brackets import between_events
from lightning_perfwatch.trace.collector import Collector
from lightning_perfwatch.trace.decode import EventStream
from lightning_perfwatch.trace.source import Source

MOST_PARTS = 8
SMALLEST_PART_BYTES = 32 << 20
"""A part takes longer to decode than a child takes to start: measured, 0.16 s against 0.12 s."""

_HEAD_START_BYTES = 32 << 20  # what is decoded here while a child starts and while its answer is read
_LIST = re.compile(rb'(?:^\s*|"traceEvents"\s*:\s*)\[')
_SEARCH_BYTES = 4 << 20  # an event that is longer than this is not cut around
_SERVE = f"from {__name__} import serve; serve()"


@dataclass(frozen=True)
class Range:
    """Bytes of a trace from the begin of an event to the end of one; `end` is None for the rest of the file."""

    path: Path
    begin: int
    end: int | None
    is_list: bool

    def blocks(self) -> Iterator[bytes]:
        """The bytes, made a whole document."""
        begin, end = (b"[", b"]") if self.is_list else (b'{"traceEvents":[', b"]}")
        return itertools.chain(
            () if self.begin == 0 else (begin,),
            Source(self.path, self.begin, self.end).blocks(),
            () if self.end is None else (end,),
        )


@dataclass(frozen=True)
class Part:
    """What a range gave; `is_sound` says that all of it was events, as a whole file would have given them."""

    collector: Collector
    metadata: dict[str, Any]
    is_sound: bool
    cut_off: bool

    @classmethod
    def of(cls, span: Range, stream: EventStream, collector: Collector) -> Part:
        """After `stream` has been read to its end into `collector`."""
        repaired = stream.num_dropped or stream.num_bare or stream.goes_on or not stream.metadata.is_whole
        too_long = stream.num_long or stream.num_long_bare or stream.metadata.is_long
        ends_early = span.end is not None and (stream.cut_off or stream.has_tail)
        is_sound = (
            stream.found_events and not (repaired or too_long or ends_early) and not collector.pairing.num_unpaired
        )
        return cls(collector, stream.metadata.values, is_sound, stream.cut_off)


def read_in_parts(path: Path, num_processes: int) -> Part | None:
    """The whole file, read by up to `num_processes` processes, this one among them.

    None where that is not worth it or not possible: a small or compressed file, one that can't be cut, one that
    needs repair, a child that dies. TraceError as :class:`~lightning_perfwatch.trace.source.Source` raises it.
    """
    first, *others = ranges(path, num_processes)
    if not others:
        return None
    stream, collector = EventStream(first.blocks()), Collector()
    with ExitStack() as stack:
        children: list[_Child] = []
        for events in stream:
            collector.add(events)
            if not children and collector.origin is not None:
                try:
                    children = [stack.enter_context(_Child(span, collector)) for span in others]
                except OSError:
                    return None
        whole = Part.of(first, stream, collector)
        for child in children:
            part = child.part() if whole.is_sound else None
            if part is None or not part.is_sound:
                return None
            collector.absorb(part.collector)
            whole = replace(whole, metadata=whole.metadata | part.metadata, cut_off=part.cut_off)
    return whole if children else None


def ranges(path: Path, num_processes: int) -> list[Range]:
    """How the file is shared out; a single range, all of it, where it should not be."""
    size = path.stat().st_size if path.is_file() else 0
    num_parts = min(num_processes, MOST_PARTS, size // SMALLEST_PART_BYTES)
    whole = Range(path, 0, None, is_list=False)
    if num_parts < 2 or not sys.executable:
        return [whole]
    each = (size - _HEAD_START_BYTES) // num_parts
    with path.open("rb") as file:
        start = file.read(_SEARCH_BYTES)
        events = _LIST.search(start)
        between = between_events(start[events.end() :]) if events else None
        if between is None:
            return [whole]
        cuts = []
        for number in range(1, num_parts):
            file.seek(near := _HEAD_START_BYTES + number * each)
            found = between.search(file.read(_SEARCH_BYTES))
            if found is None:
                return [whole]
            cuts.append((near + found.start() + 1, near + found.end()))
    begins, ends = [0, *(begin for _, begin in cuts)], [*(end for end, _ in cuts), None]
    is_list = start.lstrip().startswith(b"[")
    return [Range(path, begin, end, is_list) for begin, end in zip(begins, ends, strict=True)]


class _Child(AbstractContextManager["_Child"]):
    """A process that reads one range, counting times as `first` does; it is gone when the context ends."""

    def __init__(self, span: Range, first: Collector) -> None:
        self._process = start_child(_SERVE, subprocess.DEVNULL)
        self._task = (span, Collector(first.origin, first.per_us))

    def __enter__(self) -> _Child:
        assert self._process.stdin is not None
        with suppress(OSError):  # it died: then it has no answer either
            pickle.dump(self._task, self._process.stdin)
            self._process.stdin.flush()
        return self

    def part(self) -> Part | None:
        """What it read; None if it died."""
        assert self._process.stdout is not None
        try:
            answer = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, MemoryError, pickle.UnpicklingError):
            return None
        return answer if isinstance(answer, Part) else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """The child's part: take a range and an empty collector from stdin, answer with the Part on stdout."""
    answers = answer_pipe()
    span, collector = pickle.load(sys.stdin.buffer)
    stream = EventStream(span.blocks())
    for events in stream:
        collector.add(events)
    for group in collector.groups.values():
        group.join()
    pickle.dump(Part.of(span, stream, collector), answers, pickle.HIGHEST_PROTOCOL)
    answers.flush()
