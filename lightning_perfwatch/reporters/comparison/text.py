"""The comparison as text for a terminal, a log file or a pipe.

Owns the layout in lines. What is said comes from the outline.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TextIO

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.reporters.comparison.outline import Card, Outline, Table, outline
from lightning_perfwatch.reporters.terminal import PLAIN_WIDTH, write

_INDENT = "  "
_MIN_WIDTH, _MAX_WIDTH = 60, 140
_MOST_NAME_WIDTH = 44
_TONES = {"good": "bold green", "bad": "bold red", "even": "bold"}
_KINDS = {"gone": "bold green", "new": "bold red", "changed": "bold yellow"}

_Line = tuple[tuple[str, str], ...]
"""Pieces of a line, each a text and its rich style."""


def render(comparison: Comparison, width: int = PLAIN_WIDTH) -> str:
    """``comparison`` as plain lines of ``width`` characters; columns of figures may make a line longer."""
    lines = _lines(outline(comparison), width)
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def show(comparison: Comparison, stream: TextIO) -> None:
    """Write ``comparison`` to ``stream``: in colour and as wide as the terminal if it is one, else plain."""
    if not stream.isatty():
        write(render(comparison), stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream)
    with console.capture() as capture:
        for line in _lines(outline(comparison), min(max(console.width, _MIN_WIDTH), _MAX_WIDTH)):
            console.print(Text.assemble(*line), soft_wrap=True, highlight=False)
    write(capture.get(), stream)


def _lines(said: Outline, width: int) -> Iterable[_Line]:
    yield from _wrapped("PerfWatch  ", said.verdict, width, _TONES[said.tone])
    for name, side in (("before", said.before), ("after", said.after)):
        yield ((f"{_INDENT}{name:<7}", "bold"), (side, ""))
    for doubt in said.doubts:
        yield from _wrapped(f"{_INDENT}!  ", doubt, width, "bold yellow")
    for table in said.tables:
        yield from _table(table, width)
    yield (("findings", "bold"),)
    if said.no_findings is not None:
        yield ((_INDENT, ""), (said.no_findings, ""))
    for card in said.findings:
        yield from _card(card, width)
    if said.settings is not None:
        yield from _table(said.settings, width)
    for note in said.notes:
        yield from _wrapped("note  ", note, width, "bold")


def _table(table: Table, width: int) -> Iterable[_Line]:
    """Name, before, after and change in columns; a change that does not fit goes to the next line."""
    name_width = min(max(len(row.name) for row in table.rows), _MOST_NAME_WIDTH)
    value_width = min(max(len(text) for row in table.rows for text in (row.before, row.after)), 24)
    yield ((table.title, "bold"),)
    start = len(_INDENT) + name_width + 2 * value_width + 8
    for row in table.rows:
        name = row.name if len(row.name) <= name_width else row.name[: name_width - 1] + "…"
        figures = f"  {row.before:>{value_width}}  → {row.after:>{value_width}}"
        fits = start + len(row.change) <= width
        yield ((f"{_INDENT}{name:<{name_width}}", "bold"), (figures, ""), (f"  {row.change}" if fits else "", "cyan"))
        if not fits:
            yield ((f"{_INDENT * 3}{row.change}", "cyan"),)


def _card(card: Card, width: int) -> Iterable[_Line]:
    margin = _INDENT * 2
    head = ((f"{_INDENT}{card.kind:<11}", _KINDS.get(card.kind, "bold")), (f"{card.severity} {card.rule}", "bold"))
    one_line = sum(len(text) for text, _ in head) + len(card.change) + 2 <= width
    yield (*head, (f"  {card.change}", "")) if one_line else head
    if not one_line:
        yield from _wrapped(margin, card.change, width)
    if card.summary:
        yield from _wrapped(margin, card.summary, width)
    if card.place:
        yield ((f"{margin}at  ", "bold"), (card.place, "cyan"))
    if card.advice:
        yield from _wrapped(f"{margin}fix ", card.advice, width, "bold green")


def _wrapped(start: str, text: str, width: int, style: str = "") -> Iterable[_Line]:
    room = max(20, width - len(start))
    lines = textwrap.wrap(text.replace(" %", "\0%"), room, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield ((start if number == 0 else " " * len(start), style), (line.replace("\0", " "), ""))
