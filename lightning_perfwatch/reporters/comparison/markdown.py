"""The comparison as Markdown, such as for the comment of a pull request.

Owns the layout in headings and tables. What is said comes from the outline.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.reporters.comparison.outline import Card, Outline, Table, outline
from lightning_perfwatch.reporters.markdown import escape, table


def render(comparison: Comparison) -> str:
    """``comparison`` as Markdown with tables."""
    return "\n\n".join(_blocks(outline(comparison))) + "\n"


def _blocks(said: Outline) -> Iterable[str]:
    yield f"## PerfWatch: {escape(said.verdict)}"
    yield f"- before: {escape(said.before)}\n- after: {escape(said.after)}"
    if said.doubts:
        yield "\n".join(f"> {escape(doubt)}  " for doubt in said.doubts)
    yield from (_table(one) for one in said.tables)
    yield "### Findings"
    if said.no_findings is not None:
        yield escape(said.no_findings)
    if said.findings:
        yield "\n".join(_card(card) for card in said.findings)
    if said.settings is not None:
        yield _table(said.settings, with_change=False)
    yield from (f"{escape(note)}" for note in said.notes)


def _table(one: Table, with_change: bool = True) -> str:
    head = [one.title, "before", "after", *(["change"] if with_change else [])]
    rows = [[row.name, row.before, row.after, *([row.change] if with_change else [])] for row in one.rows]
    return table(head, ["---", "---:", "---:", *(["---"] if with_change else [])], rows)


def _card(card: Card) -> str:
    lines = [f"- **{card.kind}: {card.severity} {escape(card.rule)}**: {escape(card.change)}"]
    for name, text in (("What", card.summary), ("Where", card.place), ("Fix", card.advice)):
        if text:
            lines.append(f"  - {name}: {escape(text)}")
    return "\n".join(lines)
