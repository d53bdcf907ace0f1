"""Damages a trace's bytes at random, in the ways in which files come to harm, for fuzz tests and benchmarks."""

import gzip
import random
import re
from collections.abc import Callable

_GZIP = b"\x1f\x8b"
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (
    b"0",
    b"-1",
    b"1e999",
    b"-1e-999",
    b"9" * 40,
    b"9" * 400,
    b"1.8446744073709552e19",
    b"null",
    b'"12"',
    b"true",
)
_SCRAPS = (b'"', b"\\", b"}", b"{", b"]", b"[", b",", b":", b"NaN", b"-Infinity", b"\x00", b"\xff", b"\xef\xbb\xbf")
_ESCAPES = (b"\\", rb"\x", rb"\u12", rb"\ud800", rb"\udcff", b"\x01", b"\xc3\x28", b'a"b', b"}, {", b"}]")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A damaged copy of a trace, plain or gzip: one to six faults in the JSON, and perhaps some in the gzip.

    The same generator state gives the same damage.
    """
    packed = data.startswith(_GZIP)
    text = bytearray(gzip.decompress(data) if packed else data)
    for _ in range(rng.randint(1, 6)):
        if text:
            rng.choice(_FAULTS)(text, rng)
    result = bytes(text)
    if packed:
        result = gzip.compress(result, 1, mtime=0)
        if rng.random() < 0.4:
            result = _damaged_gzip(bytearray(result), rng)
    return result


def _flip_bytes(text: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 4)):
        text[rng.randrange(len(text))] = rng.randrange(256)


def _cut_off(text: bytearray, rng: random.Random) -> None:
    # Most often near the end: a file cut off early is soon read.
    del text[int(len(text) * (1 - rng.random() ** 3)) :]


def _drop_range(text: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(text))
    del text[at : at + _size(rng)]


def _double_range(text: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(text))
    text[at:at] = text[at : at + _size(rng)]


def _swap_ranges(text: bytearray, rng: random.Random) -> None:
    size = _size(rng)
    first, second = rng.randrange(len(text)), rng.randrange(len(text))
    text[first : first + size], text[second : second + size] = text[second : second + size], text[first : first + size]


def _swap_number(text: bytearray, rng: random.Random) -> None:
    if found := _NUMBER.search(text, rng.randrange(len(text))):
        text[found.start() : found.end()] = rng.choice(_NUMBERS)


def _break_escape(text: bytearray, rng: random.Random) -> None:
    at = text.find(b'"', rng.randrange(len(text))) + 1
    text[at:at] = rng.choice(_ESCAPES)


def _insert_scrap(text: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(text))
    text[at:at] = rng.choice(_SCRAPS)


def _delete_bracket(text: bytearray, rng: random.Random) -> None:
    at = text.find(rng.choice((b"{", b"}", b"[", b"]", b'"', b",", b":")), rng.randrange(len(text)))
    if at >= 0:
        del text[at]


_FAULTS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip_bytes,
    _cut_off,
    _drop_range,
    _double_range,
    _swap_ranges,
    _swap_number,
    _swap_number,
    _break_escape,
    _insert_scrap,
    _delete_bracket,
)


def _damaged_gzip(packed: bytearray, rng: random.Random) -> bytes:
    match rng.randrange(5):
        case 0:
            _flip_bytes(packed, rng)
        case 1:
            del packed[rng.randrange(len(packed)) :]
        case 2:
            _drop_range(packed, rng)
        case 3:
            packed += rng.choice((b"garbage", bytes(512), _GZIP, bytes(packed)))
        case _:
            at = rng.randrange(len(packed))
            packed[at : at + 64] = bytes(64)
    return bytes(packed)


def _size(rng: random.Random) -> int:
    """Bytes: most often few, at times whole events."""
    return int(2 ** (rng.random() * 12))
