"""The keys of a trace beside its events, from JSON that may be broken or too long to be held."""

import json
import re
from typing import Any

import msgspec

from lightning_perfwatch.trace.mend import mended

# What is worth saving where the text is not valid JSON as a whole.
_PRECIOUS_KEYS = ("distributedInfo", "deviceProperties", "trace_id", "baseTimeNanoseconds", "displayTimeUnit")


class Metadata:
    """`values` holds what was read; `is_whole` is False where some of it is broken, `is_long` where too much of it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.is_whole = True
        self.is_long = False

    def add(self, text: bytes) -> None:
        """An object, mended if need be; of one that can't be mended the precious keys."""
        for attempt in (text, mended(text)):
            try:
                self.values.update(msgspec.json.decode(attempt, type=dict[str, Any]))
                return
            except (msgspec.DecodeError, RecursionError):
                continue
        self.is_whole = False
        self._add_precious(text)

    def add_parts(self, text: bytes) -> None:
        """What is left of an object that was too long to be held: its precious keys."""
        self.is_long = True
        self._add_precious(text)

    def _add_precious(self, text: bytes) -> None:
        plain = text.decode("utf-8", "replace")
        for key in _PRECIOUS_KEYS:
            if match := re.search(rf'"{key}"\s*:\s*', plain):
                try:
                    self.values[key] = json.JSONDecoder(strict=False).raw_decode(plain, match.end())[0]
                except (ValueError, RecursionError):
                    continue


def first_object(text: bytes) -> tuple[bytes, bool]:
    """The object that the text begins with, and whether another document or garbage follows it."""
    plain = text.decode("utf-8", "replace")
    try:
        end = json.JSONDecoder(strict=False).raw_decode(plain)[1]
    except (ValueError, RecursionError):
        return text, False
    return (plain[:end].encode(), True) if end < len(plain) else (text, False)
