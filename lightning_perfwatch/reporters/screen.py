"""Puts text on a stream that may be a terminal, in any encoding, and that a progress bar may be drawing on.

Owns where a line begins, so that every bar stays whole and the line is its own. Knows nothing of reports, and of
progress bars only what they tell of themselves: Lightning's print through theirs, tqdm and rich are asked.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

_SUBSTITUTES = str.maketrans(
    {"µ": "u", "…": "...", "·": "-", "→": "->"} | dict.fromkeys("█▉▊▋▌", "#") | dict.fromkeys("▍▎▏", "-")
)
"""What stands for a character of PerfWatch's own where the encoding lacks it; for any other it is "?"."""


def write(text: str, stream: TextIO) -> None:
    """Write ``text`` with a substitute for every character that the encoding of ``stream`` does not have."""
    stream.write(encodable(text, stream))


def encodable(text: str, stream: TextIO) -> str:
    """``text`` as far as the encoding of ``stream`` has its characters."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except LookupError:
        return text
    except UnicodeEncodeError:
        plain = "".join(char if _has(encoding, char) else char.translate(_SUBSTITUTES) for char in text)
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def _has(encoding: str, char: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal; one that is closed is none."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def is_dumb() -> bool:
    """Whether the terminal says that it obeys no control sequences, in rich's own reading."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def columns_of(stream: TextIO) -> int | None:
    """Columns of the terminal behind ``stream``, or as ``COLUMNS`` says; None if nothing tells."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None  # a new pseudo-terminal has 0
    except (AttributeError, OSError, ValueError):
        return None


def say(line: str, stream: TextIO | None, bar: Any = None) -> None:
    """Write ``line`` on a line of its own beside a running progress bar.

    ``bar`` is the Trainer's progress bar callback, None if there is none. A bar of the user's that has a ``print`` of
    its own is given the line, and what that raises is raised here.
    """
    if bar is not None and getattr(bar, "is_enabled", True) and _has_own_print(bar):
        bar.print(line if stream is None else encodable(line, stream))
    elif stream is not None:
        _put(_line_start(stream) + encodable(line, stream) + "\n", stream)
        stream.flush()


def _has_own_print(bar: Any) -> bool:
    """Whether its ``print`` is not one of Lightning's, which do no more than is done here."""
    return not type(bar).print.__module__.startswith(("lightning.", "pytorch_lightning."))


def show(text: str, stream: TextIO, bar: Any = None) -> None:
    """Write ``text`` (whole lines) below what stands on the terminal, or above a bar that is still drawn.

    ``bar`` as in :func:`say`.
    """
    console = getattr(getattr(bar, "progress", None), "console", None)
    if console is not None and _is_proxied(stream):
        from rich.text import Text

        # Through the proxy rich would break what is longer than a line, and a path could not be copied.
        console.print(Text.from_ansi(encodable(text, stream).removesuffix("\n")), soft_wrap=True, highlight=False)
        return
    _put(_line_start(stream) + encodable(text, stream), stream)
    stream.flush()


def _put(text: str, stream: TextIO) -> None:
    """Write ``text``; bars of tqdm, which may be on stderr, are taken away for as long as that takes."""
    if _has_tqdm_bar(stream):
        sys.modules["tqdm"].tqdm.write(text, file=stream, end="")
    else:
        stream.write(text)


def _line_start(stream: TextIO) -> str:
    """What makes the next character the first of a line, wherever somebody has left the cursor.

    On a terminal as many spaces as it has columns: they fill an empty line and no more, and leave one with something
    in it; the carriage return then leads to the start of whichever line it is. (Shells do this before their prompt.)
    """
    if _is_proxied(stream):
        return ""  # rich draws its bars below
    if _has_tqdm_bar(stream):
        return "" if is_terminal(stream) else "\n"  # in a file tqdm can't take its bar away
    columns = columns_of(stream)
    if columns is None or not is_terminal(stream) or is_dumb():
        return ""
    return " " * columns + "\r\x1b[K"


def _is_proxied(stream: TextIO) -> bool:
    return hasattr(stream, "rich_proxied_file")


def _has_tqdm_bar(stream: TextIO) -> bool:
    bars = list(getattr(getattr(sys.modules.get("tqdm"), "tqdm", None), "_instances", ()))
    return any(getattr(bar, "fp", None) in (stream, sys.stdout, sys.stderr) for bar in bars)
