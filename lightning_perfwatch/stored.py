"""Documents that are stored as JSON with a schema version, and files that are there as a whole or not at all.

Owns the reading of a version and the writing of a file. Knows nothing of what the documents hold.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

Stored = TypeVar("Stored")


def read_stored(
    text: bytes | str, schema_version: int, kind: type[Stored], make: Callable[[type, Any], Any] | None = None
) -> Stored:
    """What ``text``, a JSON object with its ``schema_version``, holds; ``make`` makes what JSON has no values for.

    Raises:
        ValueError: it is none, of another version, or holds something else; the message is a clause.
    """
    try:
        document = msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    except msgspec.DecodeError as error:
        raise ValueError("it is no JSON, or not all of it") from error
    found = document.pop("schema_version", None) if isinstance(document, dict) else None
    if found != schema_version:
        raise ValueError(f"it has schema version {found!r} and {schema_version} is needed")
    try:
        return msgspec.convert(document, kind, dec_hook=make)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(f"it has another form ({error})") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write so that a reader sees the old file or the new one, never half of it; a link stays one.

    Raises OSError if it can't.
    """
    path = path.resolve()
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
