"""Events from pieces of JSON: of a whole list, or as many as a broken one gives; keeps none and reads no file."""

import re
from typing import Any

import msgspec

from lightning_perfwatch.trace.brackets import Brackets
from lightning_perfwatch.trace.event import Event, lenient

ARRAY_END = re.compile(rb"\}\s*,?\s*\](?=\s*(?:[,}\[\]]|$))")
_ARGUMENTS = re.compile(rb',\s*"args"\s*:')
_EVENTS = msgspec.json.Decoder(list[Event])
_ANYTHING = msgspec.json.Decoder(list[Any])
_MOST_NESTED = 200
"""Deeper values are no events; decoding them fills the stack, and what is collected meanwhile finds none left."""


def decoded(text: bytes, end: int) -> list[Event] | None:
    """The events of the text up to `end`, None unless it is a list of whole values there."""
    try:
        return _EVENTS.decode(b"".join((b"[", memoryview(text)[:end], b"]")))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_open(text: bytes) -> bool:
    """Whether all is well with the list of events that the text begins, but a value is not at its end."""
    try:
        _EVENTS.decode(b"[" + text)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except RecursionError:
        return False
    return False


def _any_values(text: bytes) -> tuple[list[Event], int]:
    """The events among a list of any values, and how many values are none; raises where it is no such list."""
    text = b"".join((b"[", text, b"]"))
    try:
        return _EVENTS.decode(text), 0
    except msgspec.ValidationError:  # JSON, but not as Kineto writes events
        brackets = Brackets()
        brackets.ends(text)
        if brackets.deepest > _MOST_NESTED:
            raise RecursionError from None
        values = _ANYTHING.decode(text)
    events = [event for value in values if (event := lenient(value)) is not None]
    return events, len(values) - len(events)


def first_value(text: bytes, start: int, ends: list[int]) -> tuple[list[Event] | None, int, int]:
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


def without_arguments(text: bytes) -> list[Event]:
    """The event without its arguments, in which torch leaves file names unescaped ("CallFrom")."""
    found = _ARGUMENTS.search(text)
    return decoded(text[: found.start()] + b"}", found.start() + 1) or [] if found else []


def last_event(text: bytes, start: int, end: int) -> tuple[list[Event], int, int] | None:
    """The event that begins at `start`, how many values were none, and where the list ends, if before `end`."""
    found = ARRAY_END.search(text, start, end)
    if found is None:
        return None
    try:
        return *_any_values(text[start : found.start() + 1]), found.end()
    except (msgspec.DecodeError, RecursionError):
        return None
