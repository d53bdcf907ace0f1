"""What the page shows beyond the outline: findings with their code and evidence, and tables that can be sorted.

Owns the rows and their order. Knows no rule by name, and nothing of how the page looks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_perfwatch.finding import Finding
from lightning_perfwatch.measurements import Excerpt, RankSummary
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.evidence_facts import evidence_facts
from lightning_perfwatch.reporters.outline import Card, Outline
from lightning_perfwatch.reporters.wording import Fact, amount, clean, duration, percent
from lightning_perfwatch.rules import all_rules
from lightning_perfwatch.trace import OpTotal

if TYPE_CHECKING:
    from lightning_perfwatch.reporters.timeline_chart import LaneSummary

NUM_SLOWEST = 3
_TAB = 4
_MOST_TILE_CHARS = 24


@dataclass(frozen=True)
class Tile:
    """A figure that stands out, with what is to be said of it in small; ``remark`` may be empty."""

    name: str
    figure: str
    remark: str


@dataclass(frozen=True)
class CodeLine:
    """One line of a source file; ``is_the_place`` where a finding speaks of it."""

    number: int
    text: str
    is_the_place: bool


@dataclass(frozen=True)
class FindingCard:
    """A finding: its words, the raw numbers, the code around its place, and its rule's page (None if not known)."""

    said: Card
    evidence: tuple[Fact, ...]
    code: tuple[CodeLine, ...]
    about: str | None


@dataclass(frozen=True)
class Cell:
    """What a table shows and what it is sorted by; ``key`` is None where nothing was measured."""

    text: str
    key: float | str | None


@dataclass(frozen=True)
class Column:
    """A table's column; ``is_number`` ones stand to the right and are sorted from large to small first."""

    name: str
    is_number: bool


@dataclass(frozen=True)
class Table:
    """Rows of cells below columns. The first ``num_marked`` rows are the slowest."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    num_marked: int = 0


def verdict(said: Outline) -> str:
    """The page's first sentence: what was found, the most severe by name."""
    if said.verdict is not None:
        return said.verdict
    first = said.findings[0]
    others = len(said.findings) - 1
    more = f", and {others} more {'finding' if others == 1 else 'findings'}" if others else ""
    return f"{first.rule}: {first.cost}{more}"


def speed(facts: tuple[Fact, ...]) -> tuple[tuple[Tile, ...], tuple[Fact, ...]]:
    """The figures that are short enough to stand out as tiles, and the other facts."""
    tiles, others = [], []
    for fact in facts:
        figure, _, remark = fact.value.partition(" (")
        if len(figure) <= _MOST_TILE_CHARS:
            tiles.append(Tile(fact.name, figure, remark.removesuffix(")")))
        else:
            others.append(fact)
    return tuple(tiles), tuple(others)


def finding_cards(report: Report, said: Outline) -> tuple[FindingCard, ...]:
    """A card for each finding, in the report's order."""
    return tuple(
        FindingCard(card, tuple(evidence_facts(finding.evidence)), tuple(_code(finding, report)), _about(card.rule))
        for finding, card in zip(report.findings, said.findings, strict=True)
    )


def operations(ops: tuple[OpTotal, ...]) -> Table:
    """The slowest operations, by self time."""
    ordered = sorted(ops, key=lambda op: -op.self_s)
    return _table(
        ordered,
        {
            "operation": lambda op: Cell(clean(op.name), clean(op.name)),
            "self time": lambda op: Cell(duration(op.self_s), op.self_s),
            "of the window": lambda op: Cell(percent(op.share), op.share),
            "calls per step": lambda op: _number(op.calls_per_step, amount),
            "clock": lambda op: Cell(clean(op.clock), clean(op.clock)),
        },
        num_marked=min(NUM_SLOWEST, len(ordered)),
    )


def ranks(summaries: tuple[RankSummary, ...]) -> Table:
    """All ranks beside each other; none for a single one."""
    return _table(
        summaries if len(summaries) > 1 else (),
        {
            "rank": lambda rank: Cell(str(rank.rank), float(rank.rank)),
            "process": _process,
            "tokens/s": lambda rank: _number(rank.tokens_per_s, amount),
            "samples/s": lambda rank: _number(rank.samples_per_s, amount),
            "step": lambda rank: _number(rank.step_time_s, duration),
            "data wait": lambda rank: _number(rank.data_wait_share, percent),
            "window": lambda rank: _number(rank.window_s, duration),
            "busy": lambda rank: _number(rank.busy_share, percent),
            "communication": lambda rank: _number(rank.communication_share, percent),
            "exposed": lambda rank: _number(rank.exposed_communication_share, percent),
            "waits for others": lambda rank: _number(rank.waiting_s, duration),
        },
    )


def lanes(summaries: list[LaneSummary]) -> Table:
    """What the lanes of a timeline hold, for those who don't see it."""
    return _table(
        summaries,
        {
            "lane": lambda lane: Cell(lane.name, lane.name),
            "events": lambda lane: _number(lane.num_events, amount),
            "busy": lambda lane: Cell(duration(lane.busy_us / 1e6), lane.busy_us),
            "of the step": lambda lane: Cell(percent(lane.busy_share), lane.busy_share),
            "longest event": lambda lane: Cell(lane.longest, lane.longest),
            "takes": lambda lane: Cell(duration(lane.longest_us / 1e6), lane.longest_us),
        },
    )


def _table(items: Iterable, cells: dict[str, Callable[..., Cell]], num_marked: int = 0) -> Table:  # type: ignore[type-arg]
    """A table without the columns in which nothing was measured."""
    rows = [{name: cell(item) for name, cell in cells.items()} for item in items]
    shown = [name for name in cells if any(row[name].key is not None for row in rows)]
    columns = tuple(Column(name, not any(isinstance(row[name].key, str) for row in rows)) for name in shown)
    return Table(columns, tuple(tuple(row[name] for name in shown) for row in rows), num_marked)


def _number(value: float | None, words: Callable[[float], str]) -> Cell:
    return Cell("not measured", None) if value is None else Cell(words(value), float(value))


def _process(rank: RankSummary) -> Cell:
    name = clean(rank.process or "")
    return Cell(name, name or None)


def _code(finding: Finding, report: Report) -> Iterable[CodeLine]:
    where = finding.where
    excerpt = None if where.code is None else report.excerpts.get(where.code)
    if excerpt is None:
        return
    for number, text in enumerate(_indented(excerpt), start=excerpt.first_line):
        yield CodeLine(number, text, number == where.line)


def _indented(excerpt: Excerpt) -> Iterable[str]:
    """The lines without control characters, tabs as spaces, and without the indentation that all of them have."""
    lines = [line.rstrip("\r\n").expandtabs(_TAB) for line in excerpt.lines]
    printable = ["".join(char if char.isprintable() else " " for char in line).rstrip() for line in lines]
    margin = min((len(line) - len(line.lstrip()) for line in printable if line), default=0)
    return [line[margin:] for line in printable]


def _about(rule_id: str) -> str | None:
    """The rule's documentation; None for a rule that is not known here, such as one of a newer version."""
    kind = all_rules().get(rule_id)
    return inspect.cleandoc(kind.__doc__) if kind is not None and kind.__doc__ else None
