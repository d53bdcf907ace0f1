"""Lines whose pieces have styles, and what of that a stream is given: colour and a width, or plain text.

Owns the decision, which is rich's own. Knows nothing of what the lines say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO

from lightning_perfwatch.reporters import screen

if TYPE_CHECKING:
    from rich.console import Console

Line = tuple[tuple[str, str], ...]
"""Pieces of a line, each a text and its rich style."""


def plain(lines: Iterable[Line]) -> str:
    """``lines`` without their styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def colored(lines: Iterable[Line]) -> str:
    """``lines`` with control sequences for their styles, whatever they are written to."""
    from rich.console import Console

    return _styled(lines, Console(force_terminal=True))


def text_for(stream: TextIO, lay_out: Callable[[int | None], Iterable[Line]]) -> str:
    """What ``stream`` is given: ``lay_out`` makes lines of as many columns, or of any length if None.

    A terminal has a width; colour goes where rich would send it (``NO_COLOR``, ``FORCE_COLOR``, ``TTY_COMPATIBLE``,
    ``TERM``, notebooks).
    """
    is_terminal = screen.is_terminal(stream)
    if not is_terminal and not (os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE")):
        return plain(lay_out(None))  # as rich would decide too, without the time that it takes to start
    from rich.console import Console

    console = Console(file=stream)
    lines = lay_out((screen.columns_of(stream) or console.width) if is_terminal else None)
    return _styled(lines, console) if console.is_terminal else plain(lines)


def _styled(lines: Iterable[Line], console: Console) -> str:
    from rich.text import Text

    with console.capture() as capture:
        for line in lines:
            text = Text.assemble(*line)
            text.rstrip()
            console.print(text, soft_wrap=True, highlight=False)
    return capture.get()
