"""Documents that are stored as JSON with a schema version, and files that are there as a whole or not at all.

Owns the reading of a version and the writing of a file. Knows nothing of what the documents hold.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec


def versioned(text: bytes | str, schema_version: int) -> dict[str, Any]:
    """The JSON object in ``text`` without its ``schema_version``.

    Raises:
        ValueError: it is none, or of another version; the message is a clause.
        msgspec.MsgspecError: it is no JSON.
    """
    try:
        document = msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    found = document.pop("schema_version", None) if isinstance(document, dict) else None
    if found != schema_version:
        raise ValueError(f"it has schema version {found!r} and {schema_version} is needed")
    return dict(document)


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
