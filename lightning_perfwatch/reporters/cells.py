"""How wide text is on a terminal, and how it is cut and broken to fit.

Owns the columns that characters take (two for Chinese, Japanese, Korean and emoji, none for combining marks). Knows
nothing of reports.
"""

from __future__ import annotations

import re

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµn]?s|[KMG]i?B)(?!\w))")
_TIED = "\xa0"  # a space that breaks no line
_ELLIPSIS = "…"
_NARROW = str.maketrans(dict.fromkeys("µ·…→█▉▊▋▌▍▎▏", "x"))  # PerfWatch's own, of one column: no table is needed


def width_of(text: str) -> int:
    """Columns that ``text`` takes."""
    if text.translate(_NARROW).isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int) -> str:
    """``text`` and as many spaces as make it ``width`` columns wide; longer text stays whole."""
    return text + " " * (width - width_of(text))


def cropped(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, with an ellipsis for what was cut off."""
    if width_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, max(width - 1, 0)).rstrip() + _ELLIPSIS


def wrapped(text: str, width: int, first_width: int | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, the first of ``first_width`` (``width`` if None).

    "12 ms" and words that are longer than a line stay whole.
    """
    lines: list[str] = []
    line = ""
    for word in _BEFORE_UNIT.sub(_TIED, text).split(" "):
        room = width if lines or first_width is None else first_width
        if line and width_of(line) + 1 + width_of(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [line.replace(_TIED, " ") for line in (*lines, line)]
