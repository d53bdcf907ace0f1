"""JSON of a trace, piece by piece: blocks of bytes in, lists of typed events and the other keys out.

Owns everything about broken JSON; it does not know what an event means and keeps none.

A piece ends where a `}`, a comma and a `{` follow each other. That may be inside an event (or inside a name),
but then the piece is not a list of whole values and the decoder refuses it; so what decodes was cut rightly.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from lightning_perfwatch.trace.event import Event, lenient
from lightning_perfwatch.trace.mend import mended

_HEADER_BYTES = 64 << 20  # `traceEvents` must begin within this, and one event must end within this
_RETRY_BYTES = 16 << 20  # how long to look for a better place to cut before taking the text apart
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_ARRAY_END = re.compile(rb"\}\s*,?\s*\](?=\s*(?:[,}\[\]]|$))")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*')
_ARGUMENTS = re.compile(rb',\s*"args"\s*:')
_MAX_JOINED_PIECES = 64
# Metadata worth saving from a header that is not valid JSON as a whole.
_PRECIOUS_KEYS = ("distributedInfo", "deviceProperties", "trace_id", "baseTimeNanoseconds", "displayTimeUnit")

_EVENTS = msgspec.json.Decoder(list[Event])
_ANYTHING = msgspec.json.Decoder(list[Any])


class EventStream:
    """Lists of events from blocks of JSON.

    After the iteration: `metadata` holds the other top-level keys, `found_events` is False where the document
    is no trace, `cut_off` is True where it ends early, `goes_on` where something follows its end, `has_tail` where
    other keys follow the events, `num_dropped` counts events that no repair could read, `num_bare` those that were
    read without their arguments.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = b""
        self._ended = False
        self.metadata: dict[str, Any] = {}
        self.metadata_is_whole = True
        self.found_events = False
        self.looks_like_json = False
        self._is_list = False
        self.cut_off = False
        self.num_dropped = 0
        self.num_bare = 0
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
            if self._ended:
                self.cut_off = True
                return

    def _read(self) -> bool:
        """Append one block to the buffer; False at the end of the data."""
        block = next(self._blocks, None)
        if block is None:
            self._ended = True
            return False
        self._buffer += block
        return True

    def _open(self) -> bool:
        """Move the buffer to the first byte of the first event."""
        while not self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n") and self._read():
            pass
        self._buffer = self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
        self.looks_like_json = self._buffer[:1] in (b"{", b"[")
        self._is_list = self._buffer[:1] == b"["
        if self._is_list:
            header, self._buffer = b"", self._buffer[1:]
        elif self._buffer[:1] == b"{":
            while not (key := _EVENTS_KEY.search(self._buffer)) or len(self._buffer) == key.end():
                if len(self._buffer) > _HEADER_BYTES or not self._read():
                    return False
            header, self._buffer = self._buffer[: key.start()], self._buffer[key.end() :]
            if not self._buffer.startswith(b"["):
                return False
            self._buffer = self._buffer[1:]
        else:
            return False
        self.found_events = True
        self._add_metadata(header.rstrip().rstrip(b",") + b"}" if header else b"{}")
        return True

    def _next_events(self) -> tuple[list[Event], bool]:
        """The next events, and whether the list of events ended with them."""
        while True:
            last = self._last_boundary()
            while last is None and not self._ended and len(self._buffer) < _HEADER_BYTES:
                self._read()
                last = self._last_boundary()
            if re.match(rb"\s*\]", self._buffer):
                return [], True
            if last is not None and not self._ended:
                cut, resume = last
                events = _decode(self._buffer, cut)
                if events is not None:
                    self._buffer = self._buffer[resume:]
                    return events, False
            closing = self._end_of_list()
            if closing is not None:
                return closing
            # Perhaps the cut went through an event: then a later one will not.
            if last is None or len(self._buffer) > _RETRY_BYTES or not self._ends_inside(last[0]):
                return self._repair(last)
            if not self._read():
                return self._end_of_list() or self._repair(last)

    def _last_boundary(self) -> tuple[int, int] | None:
        """Where the last whole event of the buffer ends and the next one begins; reads on if need be."""
        if len(self._buffer) < 1 << 20 and not self._ended:
            self._read()
        size = 1 << 14
        while True:
            begin = max(0, len(self._buffer) - size)
            if found := deque(_BETWEEN.finditer(self._buffer, begin), maxlen=1):
                return found[0].start() + 1, found[0].end()
            if begin == 0:
                return None
            size *= 8

    def _ends_inside(self, cut: int) -> bool:
        """Whether all is well up to the cut, but a value is still open there."""
        try:
            _EVENTS.decode(b"[" + self._buffer[:cut])
        except msgspec.DecodeError as error:
            return "truncated" in str(error)
        except RecursionError:
            return False
        return False

    def _end_of_list(self) -> tuple[list[Event], bool] | None:
        """The events up to the end of the list, where the list ends in the buffer."""
        for tried, found in enumerate(_ARRAY_END.finditer(self._buffer)):
            events = _decode(self._buffer, found.start() + 1)
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
        events = _decode(text, len(text))
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
            found, used, num_bad = _first_value(text, starts[at], ends[at : at + _MAX_JOINED_PIECES])
            self.num_dropped += num_bad
            if found is None and (closing := _last_event(text, starts[at], ends[at])) is not None:
                events.extend(closing[0])
                self.num_dropped += closing[1]
                self._buffer = text[closing[2] :] + self._buffer
                return events, True
            # An event that the file does not finish is not broken: it is cut off.
            if found is None and not (self._ended and at + 1 == len(starts)):
                found = _without_arguments(text[starts[at] : ends[at]])
                self.num_bare += len(found)
                self.num_dropped += not found
            events.extend(found or ())
            at += used
        return events, False

    def _close(self) -> None:
        """Read the keys after the list of events."""
        while len(self._buffer) < _HEADER_BYTES and self._read():
            pass
        tail = self._buffer.strip().lstrip(b",").strip()
        self._buffer = b""
        if self._is_list or tail == b"":
            self.goes_on = bool(tail)
        elif tail != b"}":
            self.has_tail = True
            if again := _EVENTS_KEY.search(tail):  # a second list: its events are not read, and that is said
                self.goes_on = True
                tail = tail[: again.start()].rstrip().rstrip(b",") + b"}"
            self._add_metadata(self._without_rest(b"{" + tail))

    def _without_rest(self, text: bytes) -> bytes:
        """The object that the text begins with; another document or garbage after it is left out."""
        plain = text.decode("utf-8", "replace")
        try:
            end = json.JSONDecoder(strict=False).raw_decode(plain)[1]
        except (ValueError, RecursionError):
            return text
        self.goes_on = self.goes_on or end < len(plain)
        return plain[:end].encode() if end < len(plain) else text

    def _add_metadata(self, text: bytes) -> None:
        for attempt in (text, mended(text)):
            try:
                self.metadata.update(msgspec.json.decode(attempt, type=dict[str, Any]))
                return
            except (msgspec.DecodeError, RecursionError):
                continue
        self.metadata_is_whole = False
        plain = text.decode("utf-8", "replace")
        for key in _PRECIOUS_KEYS:
            if match := re.search(rf'"{key}"\s*:\s*', plain):
                try:
                    self.metadata[key] = json.JSONDecoder(strict=False).raw_decode(plain, match.end())[0]
                except (ValueError, RecursionError):
                    continue


def _decode(text: bytes, end: int) -> list[Event] | None:
    """The events of the text up to `end`, None unless it is a list of whole values there."""
    try:
        return _EVENTS.decode(b"".join((b"[", memoryview(text)[:end], b"]")))
    except (msgspec.DecodeError, RecursionError):
        return None


def _any_values(text: bytes) -> tuple[list[Event], int]:
    """The events among a list of any values, and how many values are none; raises where it is no such list."""
    text = b"".join((b"[", text, b"]"))
    try:
        return _EVENTS.decode(text), 0
    except msgspec.ValidationError:  # JSON, but not as Kineto writes events
        values = _ANYTHING.decode(text)
    events = [event for value in values if (event := lenient(value)) is not None]
    return events, len(values) - len(events)


def _first_value(text: bytes, start: int, ends: list[int]) -> tuple[list[Event] | None, int, int]:
    """The event that begins at `start`, the number of pieces it takes, and how many values were no event.

    None, 1 and 0 where it can't be read.
    """
    for used, end in enumerate(ends, start=1):
        try:
            events, num_bad = _any_values(text[start:end])
        except msgspec.DecodeError as error:
            # "truncated" says that the cut went through a nested value: the next pieces belong to it.
            if "truncated" not in str(error):
                break
        except RecursionError:
            break
        else:
            return events, used, num_bad
    return None, 1, 0


def _without_arguments(text: bytes) -> list[Event]:
    """The event without its arguments, in which torch leaves file names unescaped ("CallFrom")."""
    found = _ARGUMENTS.search(text)
    return _decode(text[: found.start()] + b"}", found.start() + 1) or [] if found else []


def _last_event(text: bytes, start: int, end: int) -> tuple[list[Event], int, int] | None:
    """The event that begins at `start`, how many values were none, and where the list ends, if before `end`."""
    found = _ARRAY_END.search(text, start, end)
    if found is None:
        return None
    try:
        return *_any_values(text[start : found.start() + 1]), found.end()
    except (msgspec.DecodeError, RecursionError):
        return None
