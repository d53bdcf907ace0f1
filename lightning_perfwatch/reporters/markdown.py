"""The report as Markdown that GitHub and TensorBoard's text tab show alike.

Owns the layout in headings and tables and what must be escaped in names. Knows no rule by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.outline import Card, Outline, Part, outline
from lightning_perfwatch.reporters.wording import Fact

# Both renderers know these escapes; a backslash before "|", "<" or "~" is shown by one of them.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "~": "&#126;"}
_MARKS = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[\\`*\[\]]")  # an underscore within a word is no mark


def render(report: Report) -> str:
    """``report`` as Markdown with tables."""
    blocks = _blocks(outline(report))
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """``text`` so that Markdown shows it as it is: no markup, no HTML, no table columns."""
    marked = _MARKS.sub(lambda match: "\\" + match.group(), text)
    return "".join(_ENTITIES.get(char, char) for char in marked)


def _blocks(said: Outline) -> Iterable[str]:
    yield f"## PerfWatch: {escape(said.headline)}"
    yield f"### {said.verdict}" if said.verdict is not None else "### Findings, most severe first"
    yield from (_finding(number, card) for number, card in enumerate(said.findings, start=1))
    yield _facts(("speed", ""), said.speed)
    if said.step_total is not None:
        yield _parts(("the mean step", "time", "share"), (*said.step, said.step_total))
    if said.outside is not None:
        yield f"Outside steps: {escape(said.outside)}"
    yield _facts(("device", ""), said.devices)
    yield _parts(("slowest operations", "self time", "share of the profiled window"), said.operations)
    yield _facts(("rank", ""), said.ranks)
    yield _table(("rules skipped", "reason"), [(", ".join(rules), reason) for reason, rules in said.skipped])
    closing = [] if said.overhead is None else [Fact("PerfWatch itself", said.overhead)]
    closing += [Fact("note", note) for note in said.notes]
    yield _facts(("about this report", ""), (*closing, *said.files))


def _finding(number: int, card: Card) -> str:
    lines = [
        f"**{number}. {card.severity.upper()} {escape(card.rule)}**: {escape(card.cost)}",
        f"- What: {escape(card.summary)}",
    ]
    if card.place is not None:
        lines.append(f"- Where: {escape(card.place)}")
    lines.append(f"- Fix: {escape(card.advice)}")
    return f"{lines[0]}\n\n" + "\n".join(lines[1:])


def _facts(head: tuple[str, str], facts: Iterable[Fact]) -> str:
    return _table(head, [(fact.name, fact.value) for fact in facts])


def _parts(head: tuple[str, str, str], parts: Iterable[Part]) -> str:
    return _table(head, [(part.name, part.duration, part.percent) for part in parts])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, or nothing if it has no rows; ``head`` is not escaped."""
    if not rows:
        return ""
    return table(head, ["---" if index == 0 or len(head) == 2 else "---:" for index in range(len(head))], rows)


def table(head: Sequence[str], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with ``columns`` such as ``---:`` (to the right); ``head`` is not escaped."""
    cells = [[escape(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, columns, *cells))
