"""Where the values of a JSON text end, told from its quotes and brackets alone; for values too long to be held.

Knows bytes only, and of them no more than one block at a time.
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_SLICE_BYTES = 1 << 20  # what is looked at in one go: some arrays of this length are made
_QUOTE = 2
_MARKS = np.zeros(256, np.int8)
for _bytes, _mark in ((b"{[", 1), (b"}]", -1), (b'"', _QUOTE)):
    _MARKS[list(_bytes)] = _mark
_FIRST_KEY = re.compile(rb'\s*\{\s*("\w+")\s*:')
_BORDER_BYTES = 256  # more than stands between two events


class Brackets:
    """Follows a text that comes in blocks, from the begin of a value in a list; ``deepest`` is its nesting so far."""

    def __init__(self) -> None:
        self.deepest = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the next byte follows a backslash

    def ends(self, text: bytes) -> npt.NDArray[np.int64]:
        """Where objects and lists end in the next block of text that are in no other, up to the list's own end."""
        found = [
            self._ends(text[at : at + _SLICE_BYTES]) + at
            for at in range(0, len(text), _SLICE_BYTES)
            if self._depth >= 0
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _ends(self, text: bytes) -> npt.NDArray[np.int64]:
        if self._escaped:
            text = b"_" + text[1:]
        if b"\\" in text:
            text = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
        self._escaped = text.endswith(b"\\")
        marks = _MARKS[np.frombuffer(text, np.uint8)]
        where = np.flatnonzero(marks)
        marks = marks[where]
        quotes = marks == _QUOTE
        in_string = (np.cumsum(quotes) + self._in_string) % 2 == 1
        marks[quotes | in_string] = 0
        depth = self._depth + np.cumsum(marks, dtype=np.int64)
        if len(where):
            self._in_string = bool(in_string[-1])
            self._depth = int(depth[-1])
            self.deepest = max(self.deepest, int(depth.max()))
        if (depth < 0).any():
            self._depth = -1
            marks = marks[: int(np.argmax(depth < 0))]
        ends: npt.NDArray[np.int64] = where[: len(marks)][(marks < 0) & (depth[: len(marks)] == 0)] + 1
        return ends


def between_events(text: bytes) -> re.Pattern[bytes] | None:
    """What stands before an event that begins with the same key as the one that the text begins with.

    No string of valid JSON holds it, as its quotes would be escaped.
    """
    key = _FIRST_KEY.match(text)
    return re.compile(rb"\}\s*,\s*(?=\{\s*" + key[1] + rb"\s*:)") if key else None


def after_value(text: bytes, blocks: Iterator[bytes]) -> bytes:
    """What follows the value that begins with all of `text` and ends in `blocks`, as far as it was read for it.

    A value that never ends, in damaged JSON, ends where the next event begins; empty where the data ends in it.
    """
    brackets, between = Brackets(), between_events(text)
    brackets.ends(text)
    before = text[-_BORDER_BYTES:]
    for block in blocks:
        ends = brackets.ends(block)
        end = len(before) + int(ends[0]) if len(ends) else None
        joined = before + block
        border = between.search(joined) if between else None
        if border and (end is None or border.start() + 1 < end):
            return joined[border.end() :]
        if end is not None:
            return joined[end:]
        before = joined[-_BORDER_BYTES:]
    return b""
