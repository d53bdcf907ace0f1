"""Bytes of a trace file, plain or gzip, in blocks of bounded size; knows nothing of JSON or events."""

import codecs
import itertools
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = (
    1 << 19
)  # so little that the memory of one block serves the next: 2 MiB cost a quarter more, in page faults
_GZIP = b"\x1f\x8b"
_READ_BYTES = 1 << 16  # what damage in the compressed data can cost at most


class TraceError(ValueError):
    """A trace that cannot be used: one sentence that names the file and the remedy."""


class Source:
    """Iterates over the uncompressed blocks of a file; `damage` says why the data ended early, if it did.

    Of a plain file `begin` and `end` cut out a range of bytes; `end` is None for the rest of it.
    """

    def __init__(self, path: Path, begin: int = 0, end: int | None = None) -> None:
        self.path = path
        self.damage: str | None = None
        self._begin = begin
        self._end = end

    def blocks(self) -> Iterator[bytes]:
        """Yield the content; an unreadable file raises TraceError, a damaged one ends with `damage` set."""
        try:
            with self.path.open("rb") as file:
                magic = file.read(2)
                if not magic:
                    raise TraceError(f"{self.path} is empty: record the trace again.")
                if self._begin:
                    file.seek(self._begin)
                    magic = b""
                # What has been read is put in front: a pipe can't go back.
                yield from _utf8(self._gunzip(file, magic) if magic == _GZIP else _plain(file, magic, self._end))
        except FileNotFoundError:
            raise TraceError(f"{self.path} does not exist: check the path.") from None
        except IsADirectoryError:
            raise TraceError(f"{self.path} is a folder: name a trace file in it.") from None
        except PermissionError:
            raise TraceError(f"{self.path} may not be read: change its permissions.") from None
        except OSError as error:
            raise TraceError(
                f"{self.path} could not be read ({error.strerror or error}): copy it to a local disk."
            ) from None

    def _gunzip(self, file: BinaryIO, data: bytes) -> Iterator[bytes]:
        # Not gzip.GzipFile: on a truncated file it throws away what it had already decompressed.
        inflater = zlib.decompressobj(wbits=31)
        data += file.read(_READ_BYTES)
        while True:
            data = data or file.read(_READ_BYTES)
            if not data:
                yield inflater.flush()
                self.damage = None if inflater.eof else "the gzip data is cut off"
                return
            before = inflater.copy()
            try:
                block = inflater.decompress(data, BLOCK_BYTES)
            except zlib.error:
                self.damage = "the gzip data is damaged"
                yield _undamaged(before, data)
                return
            if block:
                yield block
            data = inflater.unconsumed_tail
            if inflater.eof:
                data = inflater.unused_data or file.read(_READ_BYTES)
                if not data.startswith(_GZIP[: len(data)]) or not data:
                    return
                inflater = zlib.decompressobj(wbits=31)


def _utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks as they are, or from UTF-16 (which a redirection in PowerShell writes) where a mark says so."""
    first = next((block for block in blocks if block), b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for block in itertools.chain((first,), blocks):
        yield decoder.decode(block).encode()


def _undamaged(inflater: "zlib._Decompress", data: bytes) -> bytes:
    """What the data gives up to the damage: a call that fails keeps nothing, so it gets one byte at a time."""
    found = []
    try:
        for at in range(len(data)):
            found.append(inflater.decompress(data[at : at + 1]))
    except zlib.error:
        pass
    return b"".join(found)


def _plain(file: BinaryIO, begun: bytes, end: int | None) -> Iterator[bytes]:
    left = math.inf if end is None else end - file.tell()
    if begun:
        yield begun
    while block := file.read(int(min(BLOCK_BYTES, left))):
        left -= len(block)
        yield block
