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

from lightning_perfwatch.trace.columns import ABSENT

_HEADER_BYTES = 64 << 20  # `traceEvents` must begin within this, and one event must end within this
_RETRY_BYTES = 16 << 20  # how long to look for a better place to cut before taking the text apart
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_ARRAY_END = re.compile(rb"\}\s*,?\s*\](?=\s*(?:[,}]|$))")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*')
_LONE_SURROGATE = re.compile(rb"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}")
_NO_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)[-+]?(?:NaN|nan|Infinity|inf)(?=\s*[,\]}])")
_MAX_JOINED_PIECES = 64
# Metadata worth saving from a header that is not valid JSON as a whole.
_PRECIOUS_KEYS = ("distributedInfo", "deviceProperties", "trace_id", "baseTimeNanoseconds", "displayTimeUnit")


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that become columns."""

    correlation: int | None = ABSENT
    device: int | None = ABSENT
    stream: int | None = ABSENT
    bytes: int | None = ABSENT


class Event(msgspec.Struct, gc=False):
    """One event of the file, before anything is made of it."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None


_EVENTS = msgspec.json.Decoder(list[Event])
_ANYTHING = msgspec.json.Decoder(list[Any])


class EventStream:
    """Lists of events from blocks of JSON.

    After the iteration: `metadata` holds the other top-level keys, `found_events` is False where the document
    is no trace, `cut_off` is True where it ends early, `num_dropped` counts events that no repair could read.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = b""
        self._ended = False
        self.metadata: dict[str, Any] = {}
        self.metadata_is_whole = True
        self.found_events = False
        self.looks_like_json = False
        self.cut_off = False
        self.num_dropped = 0

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
        if self._buffer[:1] == b"[":
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
        text, rest = _mended(self._buffer[:cut]), self._buffer[resume:]
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
        pieces = [piece + b"}" for piece in _BETWEEN.split(text)]
        pieces[-1] = pieces[-1][:-1]
        events: list[Event] = []
        at = 0
        while at < len(pieces):
            found, used, closed = _first_value(pieces, at)
            if found is None:
                # An event that the file does not finish is not broken: it is cut off.
                self.num_dropped += not (self._ended and at + 1 == len(pieces))
            else:
                events.extend(found)
            at += used
            if closed:
                self._buffer = b",".join(pieces[at:]) + self._buffer
                return events, True
        return events, False

    def _close(self) -> None:
        """Read the keys after the list of events."""
        while len(self._buffer) < _HEADER_BYTES and self._read():
            pass
        tail = self._buffer.strip().lstrip(b",").strip()
        self._buffer = b""
        if tail not in (b"", b"}"):
            self._add_metadata(b"{" + tail)

    def _add_metadata(self, text: bytes) -> None:
        for attempt in (text, _mended(text)):
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


def _first_value(pieces: list[bytes], at: int) -> tuple[list[Event] | None, int, bool]:
    """Events of the value that begins at a piece, how many pieces it took, whether the list ended there."""
    text = pieces[at]
    for used in range(1, _MAX_JOINED_PIECES + 1):
        try:
            values = _ANYTHING.decode(b"[" + text + b"]")
        except msgspec.DecodeError as error:
            if (end := _ARRAY_END.search(text)) and (events := _decode(text, end.start() + 1)) is not None:
                return events, used, True
            # "truncated" says that the cut went through a nested value: the next pieces belong to it.
            if "truncated" not in str(error) or at + used >= len(pieces):
                return None, 1, False
            text += b"," + pieces[at + used]
        except RecursionError:
            return None, 1, False
        else:
            events = [event for value in values if (event := _lenient(value)) is not None]
            return (events if len(events) == len(values) else None), used, False
    return None, 1, False


def _lenient(value: object) -> Event | None:
    """An event from a value whose fields have unexpected types: numbers as text, arguments as a list."""
    if not isinstance(value, dict):
        return None
    args = value.get("args")
    fields = {key: value[key] for key in Event.__struct_fields__ if key in value and key != "args"}
    for key in ("ts", "dur"):
        fields[key] = _number(fields.get(key))
    for key in ("pid", "tid"):
        if not isinstance(fields.get(key), int | str | float):
            fields[key] = None
    for key in ("ph", "name", "cat"):
        fields[key] = str(fields.get(key) or "")
    known = {key: _integer(args.get(key)) for key in Args.__struct_fields__} if isinstance(args, dict) else {}
    return Event(**fields, args=Args(**known))


def _number(value: object) -> float | int | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**63 else None


def _mended(text: bytes) -> bytes:
    """JSON with the faults mended that profilers are known to write.

    Raw control characters and stray backslashes in names, lone surrogates, invalid UTF-8, bare NaN, Infinity.
    """
    text = text.decode("utf-8", "replace").encode()
    text = re.sub(rb"[\x00-\x1f]", b" ", text)
    text = re.sub(
        rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\',
        lambda found: rb"\\" if len(found[0]) == 1 else found[0],
        text,
    )
    text = _LONE_SURROGATE.sub(rb"\\ufffd", text)
    return _NO_NUMBER.sub(rb"\1null", text)
