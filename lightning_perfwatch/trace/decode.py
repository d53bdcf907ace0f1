"""JSON of a trace, piece by piece: blocks of bytes in, lists of typed events and the other keys out.

Owns everything about broken JSON; it does not know what an event means and keeps none.

A piece ends where a `}`, a comma and a `{` follow each other. That may be inside an event (or inside a name),
but then the piece is not a list of whole values and the decoder refuses it; so what decodes was cut rightly.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from lightning_perfwatch.trace.brackets import Brackets, after_value, between_events
from lightning_perfwatch.trace.event import Event
from lightning_perfwatch.trace.mend import mended
from lightning_perfwatch.trace.metadata import Metadata, first_object
from lightning_perfwatch.trace.salvage import ARRAY_END, decoded, first_value, is_open, last_event, without_arguments

LONGEST_BYTES = 64_000_000
"""What is held of one event, or of the keys before or after the events; of a longer one little or nothing is read."""

_RETRY_BYTES = 16 << 20  # how long to look for a better place to cut before taking the text apart
_KEPT_BYTES = 1 << 18  # of the begin and of the end of what is too long
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_LIST_END = re.compile(rb"\s*\]")
_GAP = b", \t\r\n"  # what stands between two events
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*')
_MAX_JOINED_PIECES = 64
_LAST_BYTES = 1 << 12  # in which a block's last boundary is looked for first


class EventStream:
    """Lists of events from blocks of JSON.

    An event of more than `longest_bytes` is read without its arguments (`num_long_bare`) or not at all (`num_long`).

    After the iteration: `metadata` holds the other top-level keys, `found_events` is False where the document
    is no trace, `cut_off` is True where it ends early, `goes_on` where something follows its end, `has_tail` where
    other keys follow the events, `num_dropped` counts events that no repair could read, `num_bare` those that were
    read without their arguments.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = b""
        self._ended = False
        self.longest_bytes = LONGEST_BYTES
        self.metadata = Metadata()
        self.found_events = False
        self.looks_like_json = False
        self._is_list = False
        self.cut_off = False
        self.num_dropped = 0
        self.num_bare = 0
        self.num_long = 0
        self.num_long_bare = 0
        self.goes_on = False
        self.has_tail = False

    def __iter__(self) -> Iterator[list[Event]]:
        if not self._open():
            return
        while True:
            events, closed = self._next_events()
            if events:
                yield events
            if closed:
                self._close()
                return
            if self._ended and not self._buffer.strip():
                self.cut_off = True
                return

    def _read(self, num_bytes: int = 1) -> bool:
        """Append blocks to the buffer, that many bytes at least; False if nothing came before the end of the data."""
        blocks, left = [self._buffer], num_bytes
        while left > 0 and not self._ended:
            block = next(self._blocks, None)
            self._ended = block is None
            blocks.append(block or b"")
            left -= len(blocks[-1])
        self._buffer = b"".join(blocks)
        return left < num_bytes

    def _grow(self) -> bool:
        """Double the buffer, so that looking through all of it again takes linear time; False where it can't grow."""
        size = len(self._buffer)
        return size < self.longest_bytes and self._read(max(1, min(size, self.longest_bytes - size)))

    def _open(self) -> bool:
        """Move the buffer to the first byte of the first event."""
        while not (begun := self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n")):
            self._buffer = b""
            if not self._read():
                break
        self._buffer = begun
        self.looks_like_json = self._buffer[:1] in (b"{", b"[")
        self._is_list = self._buffer[:1] == b"["
        if self._is_list:
            self._buffer = self._buffer[1:]
        elif not self.looks_like_json or not self._read_header():
            return False
        self.found_events = True
        return True

    def _read_header(self) -> bool:
        """Move the buffer into the list of events; False if there is none."""
        start = b""  # of a header that is too long
        while not (key := _EVENTS_KEY.search(self._buffer)) or len(self._buffer) == key.end():
            if not start and self._grow():
                continue
            if len(self._buffer) >= self.longest_bytes:
                start = self._buffer[:_KEPT_BYTES]
            if start:
                self._buffer = self._buffer[-_KEPT_BYTES:]
            if not self._read():
                return False
        header, self._buffer = self._buffer[: key.start()], self._buffer[key.end() :]
        if not self._buffer.startswith(b"["):
            return False
        self._buffer = self._buffer[1:]
        if start:
            self.metadata.add_parts(start + b"\n" + header[-_KEPT_BYTES:])
        else:
            self.metadata.add(header.rstrip().rstrip(b",") + b"}")
        return True

    def _next_events(self) -> tuple[list[Event], bool]:
        """The next events, and whether the list of events ended with them."""
        while True:
            last = self._last_boundary()
            while last is None and self._grow():
                last = self._last_boundary()
            if end := _LIST_END.match(self._buffer):
                self._buffer = self._buffer[end.end() :]
                return [], True
            if last is not None and (events := self._take(*last)) is not None:
                return events, False
            if (closing := self._end_of_list()) is not None:
                return closing
            if last is not None and not is_open(self._buffer[: last[0]]):
                return self._repair(last)
            # A long event: the cut went through it, or there was none.
            ends = Brackets().ends(self._buffer)
            if len(ends) and (events := self._take(end_of_last := int(ends[-1]), end_of_last)) is not None:
                return events, False
            if len(ends) or self._ended or self._seems_lost():
                return self._repair(last)
            if len(self._buffer) >= self.longest_bytes:
                return self._skip(), False
            self._grow()

    def _take(self, cut: int, resume: int) -> list[Event] | None:
        """Decode the buffer up to the cut and go on behind it; None, with nothing done, if that gives no events."""
        events = decoded(self._buffer, cut)
        if events is not None:
            self._buffer = self._buffer[resume:].lstrip(_GAP)
        return events

    def _seems_lost(self) -> bool:
        """Whether the event that seems to be long is one of which the end is missing: another event follows in it."""
        if not self._buffer.lstrip().startswith(b"{"):
            return True
        between = between_events(self._buffer) if len(self._buffer) > _RETRY_BYTES else None
        return between is not None and between.search(self._buffer) is not None

    def _skip(self) -> list[Event]:
        """Leave out what is too long of the event that the buffer begins with: its arguments, or all of it."""
        events = without_arguments(self._buffer[:_KEPT_BYTES])
        self.num_long_bare += len(events)
        self.num_long += not events
        self._buffer = after_value(self._buffer, self._blocks).lstrip(_GAP)
        while not self._buffer and self._read():
            self._buffer = self._buffer.lstrip(_GAP)
        return events

    def _last_boundary(self) -> tuple[int, int] | None:
        """Where the last whole event of the buffer ends and the next one begins; reads on if need be."""
        if len(self._buffer) < 1 << 20 and not self._ended:
            self._read()
        size = _LAST_BYTES
        while True:
            begin = max(0, len(self._buffer) - size)
            if found := deque(_BETWEEN.finditer(self._buffer, begin), maxlen=1):
                return found[0].start() + 1, found[0].end()
            if begin == 0:
                return None
            size *= 8

    def _end_of_list(self) -> tuple[list[Event], bool] | None:
        """The events up to the end of the list, where the list ends in the buffer."""
        for tried, found in enumerate(ARRAY_END.finditer(self._buffer)):
            events = decoded(self._buffer, found.start() + 1)
            if events is not None:
                self._buffer = self._buffer[found.end() :]
                return events, True
            if tried == 8:
                break
        return None

    def _repair(self, last: tuple[int, int] | None) -> tuple[list[Event], bool]:
        """The events of a buffer that does not decode as it is: mended as a whole, else one by one."""
        cut, resume = last if last is not None and not self._ended else (len(self._buffer), len(self._buffer))
        text, rest = mended(self._buffer[:cut]), self._buffer[resume:]
        events = decoded(text, len(text))
        if events is not None:
            self._buffer = rest
            return events, False
        self._buffer = text
        closing = self._end_of_list()
        if closing is not None:
            self._buffer += rest
            return closing
        self._buffer = rest
        return self._one_by_one(text)

    def _one_by_one(self, text: bytes) -> tuple[list[Event], bool]:
        """Every event of `text` that can be read alone; the rest is counted."""
        between = [(found.start() + 1, found.end()) for found in _BETWEEN.finditer(text)]
        starts = [0, *(resume for _, resume in between)]
        ends = [*(cut for cut, _ in between), len(text)]
        events: list[Event] = []
        at = 0
        while at < len(starts):
            found, used, num_bad = first_value(text, starts[at], ends[at : at + _MAX_JOINED_PIECES])
            self.num_dropped += num_bad
            if found is None and (closing := last_event(text, starts[at], ends[at])) is not None:
                events.extend(closing[0])
                self.num_dropped += closing[1]
                self._buffer = text[closing[2] :] + self._buffer
                return events, True
            # An event that the file does not finish is not broken: it is cut off.
            if found is None and not (self._ended and at + 1 == len(starts)):
                found = without_arguments(text[starts[at] : ends[at]])
                self.num_bare += len(found)
                self.num_dropped += not found
            events.extend(found or ())
            at += used
        return events, False

    def _close(self) -> None:
        """Read the keys after the list of events."""
        self._read(self.longest_bytes - len(self._buffer))
        is_long = len(self._buffer) >= self.longest_bytes
        tail = self._buffer.strip().lstrip(b",").strip()
        self._buffer = b""
        if self._is_list or tail == b"":
            self.goes_on = bool(tail)
        elif is_long:
            self.has_tail = True
            self.metadata.add_parts(tail[:_KEPT_BYTES])
        elif tail != b"}":
            self.has_tail = True
            if again := _EVENTS_KEY.search(tail):  # a second list: its events are not read, and that is said
                self.goes_on = True
                tail = tail[: again.start()].rstrip().rstrip(b",") + b"}"
            text, has_rest = first_object(b"{" + tail)
            self.goes_on = self.goes_on or has_rest
            self.metadata.add(text)
