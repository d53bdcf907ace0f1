"""The comparison as text for a terminal, a log file or a pipe.

Owns the layout in lines: as wide as a terminal, and whole lines where nothing says how wide a line may be. What is
said comes from the outline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.reporters import screen
from lightning_perfwatch.reporters.cells import cropped, padded, width_of, wrapped
from lightning_perfwatch.reporters.comparison.outline import Card, Outline, Table, outline
from lightning_perfwatch.reporters.styled import Line, plain, text_for

_INDENT = "  "
_MIN_WIDTH, _MAX_WIDTH = 40, 140
_UNLIMITED = 1 << 30
_MOST_NAME_WIDTH, _MOST_VALUE_WIDTH = 44, 24
_TONES = {"good": "bold green", "bad": "bold red", "even": "bold"}
_KINDS = {"gone": "bold green", "new": "bold red", "changed": "bold yellow"}
_HEADING, _NAME, _PLACE, _FIX = "bold", "cyan", "underline", "bold green"


def render(comparison: Comparison, width: int | None = None) -> str:
    """``comparison`` as plain lines of ``width`` columns (whole lines if None).

    Figures and places are never broken and may make a line longer.
    """
    return plain(_lay_out(comparison, width))


def show(comparison: Comparison, stream: TextIO) -> None:
    """Write ``comparison`` to ``stream``, as wide as the terminal if it is one; in colour where rich would do so."""
    screen.show(text_for(stream, lambda width: _lay_out(comparison, width)), stream)


def _lay_out(comparison: Comparison, width: int | None) -> Iterable[Line]:
    limit = _UNLIMITED if width is None else min(max(width, _MIN_WIDTH), _MAX_WIDTH)
    return _lines(outline(comparison), limit)


def _lines(said: Outline, width: int) -> Iterable[Line]:
    yield from _wrapped("PerfWatch  ", said.verdict, width, _TONES[said.tone])
    for name, side in (("before", said.before), ("after", said.after)):
        yield from _wrapped(f"{_INDENT}{name:<6}  ", side, width, _NAME)
    for doubt in said.doubts:
        yield from _wrapped(f"{_INDENT}!  ", doubt, width, "bold yellow")
    for table in said.tables:
        yield from _table(table, width)
    yield (("findings", _HEADING),)
    if said.no_findings is not None:
        yield ((_INDENT, ""), (said.no_findings, ""))
    for card in said.findings:
        yield from _card(card, width)
    if said.settings is not None:
        yield from _table(said.settings, width)
    for note in said.notes:
        yield from _wrapped("note  ", note, width, _HEADING)


def _table(table: Table, width: int) -> Iterable[Line]:
    """Name, before, after and change in columns; a change that does not fit goes to the next line."""
    rows = table.rows
    values = max(width_of(text) for row in rows for text in (row.before, row.after))
    value_width = min(values, _MOST_VALUE_WIDTH)
    room = max(width - 2 * value_width - len(_INDENT) - 6, 8)
    name_width = min(max(width_of(row.name) for row in rows), _MOST_NAME_WIDTH, room)
    yield ((table.title, _HEADING),)
    for row in rows:
        name = padded(cropped(row.name, name_width), name_width)
        before, after = (" " * max(value_width - width_of(text), 0) + text for text in (row.before, row.after))
        figures = f"  {before} → {after}"
        fits = len(_INDENT) + name_width + width_of(figures) + 2 + width_of(row.change) <= width
        change = f"  {row.change}" if fits else ""
        yield ((f"{_INDENT}{name}", _NAME), (figures, ""), (change, "bold"))
        if not fits:
            yield ((f"{_INDENT * 3}{row.change}", "bold"),)


def _card(card: Card, width: int) -> Iterable[Line]:
    margin = _INDENT * 2
    head = ((f"{_INDENT}{card.kind:<10}  ", _KINDS.get(card.kind, "bold")), (f"{card.severity} {card.rule}", "bold"))
    if sum(width_of(text) for text, _ in head) + 2 + width_of(card.change) <= width:
        yield (*head, (f"  {card.change}", ""))
    else:
        yield head
        yield from _wrapped(margin, card.change, width)
    if card.summary:
        yield from _wrapped(margin, card.summary, width)
    if card.place:
        yield ((f"{margin}at  ", _NAME), (card.place, _PLACE))
    if card.advice:
        yield from _wrapped(f"{margin}fix ", card.advice, width, _FIX)


def _wrapped(start: str, text: str, width: int, style: str = "") -> Iterable[Line]:
    """``text`` after ``start``, further lines indented to it; paths and "12 ms" are never broken."""
    lines = [text] if width == _UNLIMITED else wrapped(text, width - width_of(start))
    for number, line in enumerate(lines):
        yield ((start if number == 0 else " " * width_of(start), style), (line, ""))
