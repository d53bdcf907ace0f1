"""The report as text for a terminal, a log file or a pipe.

Owns the layout in lines. Knows no rule by name; what is said comes from the outline.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.outline import Card, Outline, Part, outline
from lightning_perfwatch.reporters.wording import Fact

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
"""Width of the text where no terminal says how wide it is."""

_MIN_WIDTH, _MAX_WIDTH = 50, 120
_NUM_OPERATIONS = 3
_NUM_RANKS = 8
_INDENT = "  "
_NAME_WIDTH = len("callbacks and logging")
_BAR_WIDTH = 30
_SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "bold blue"}

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµn]?s|[KMG]i?B)(?!\w))")

_Line = tuple[tuple[str, str], ...]
"""Pieces of a line, each a text and its rich style."""


def render(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """``report`` as lines of ``width`` characters (:data:`PLAIN_WIDTH` if None), plain unless ``color``.

    Places and paths are never broken, so that they can be searched and copied.
    """
    lines = _lines(outline(report), PLAIN_WIDTH if width is None else max(_MIN_WIDTH, width))
    if not color:
        return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)
    from rich.console import Console

    return _styled(lines, Console(force_terminal=True, width=width or PLAIN_WIDTH))


def show(report: Report, stream: TextIO) -> None:
    """Write ``report`` to ``stream``: in colour and as wide as the terminal if it is one, else plain."""
    if not stream.isatty():
        write(render(report), stream)
        return
    from rich.console import Console

    console = Console(file=stream)
    width = min(max(console.width, _MIN_WIDTH), _MAX_WIDTH)
    write(_styled(_lines(outline(report), width), console), stream)


def window_line(report: Report) -> str:
    """One line on the newest window of ``report``, for a training that goes on."""
    said = outline(report)
    window = report.windows[-1] if report.windows else None
    steps = "" if window is None else f" steps {window.first_step} to {window.first_step + window.num_steps - 1}"
    count = "1 finding" if len(said.findings) == 1 else f"{len(said.findings)} findings"
    found = f"{count}, first {said.findings[0].rule}" if said.findings else "no bottleneck found"
    return f"PerfWatch profiled{steps}: {found}."


def write(text: str, stream: TextIO) -> None:
    """Write ``text`` with a ``?`` for every character that the encoding of ``stream`` does not have."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))


def _styled(lines: Iterable[_Line], console: Console) -> str:
    from rich.text import Text

    with console.capture() as capture:
        for line in lines:
            console.print(Text.assemble(*line), soft_wrap=True, highlight=False)
    return capture.get()


def _lines(said: Outline, width: int) -> Iterable[_Line]:
    yield from _wrapped("PerfWatch  ", said.headline, width, "bold")
    yield from _facts(said.speed, width)
    if said.outside is not None:
        yield from _facts([Fact("outside steps", said.outside)], width)
    yield from _facts(said.devices, width)
    if said.step_total is not None:
        yield _heading("the mean step")
        yield from _parts((*said.step, said.step_total), width)
    if said.operations:
        yield _heading("slowest operations (self time, share of the profiled window)")
        yield from _operations(said.operations[:_NUM_OPERATIONS], width)
    if said.findings:
        yield _heading("findings (most severe first)")
    for card in said.findings:
        yield from _finding(card, width)
    if said.verdict is not None:
        yield _heading(said.verdict)
    yield ()
    yield from _facts(_closing(said), width)
    for fact in said.files:
        yield ((f"{_INDENT}{fact.name:<{_NAME_WIDTH}}  ", "bold"), (fact.value, ""))


def _closing(said: Outline) -> Iterable[Fact]:
    yield from said.ranks[:_NUM_RANKS]
    if len(said.ranks) > _NUM_RANKS:
        yield Fact("more ranks", f"{len(said.ranks) - _NUM_RANKS}, in the report")
    if said.skipped:
        num_skipped = sum(len(rules) for _, rules in said.skipped)
        reasons = "; ".join(f"{', '.join(rules)}: {reason}" for reason, rules in said.skipped)
        yield Fact("rules skipped", f"{num_skipped} ({reasons})")
    if said.overhead is not None:
        yield Fact("PerfWatch itself", said.overhead)
    for note in said.notes:
        yield Fact("note", note)


def _heading(text: str) -> _Line:
    return ((text, "bold"),)


def _facts(facts: Iterable[Fact], width: int) -> Iterable[_Line]:
    for fact in facts:
        yield from _wrapped(f"{_INDENT}{fact.name:<{_NAME_WIDTH}}  ", fact.value, width, "bold")


def _parts(parts: tuple[Part, ...], width: int) -> Iterable[_Line]:
    """One line a part: name, duration, share and a bar as long as the share."""
    duration_width = max(len(part.duration) for part in parts)
    room = width - len(_INDENT) - _NAME_WIDTH - duration_width - 14
    bar_width = max(0, min(_BAR_WIDTH, room))
    for part in parts:
        figures = f"{part.duration:>{duration_width}}  {part.percent:>6}  "
        bar = "" if part is parts[-1] else _bar(part.share, bar_width)
        yield ((f"{_INDENT}{part.name:<{_NAME_WIDTH}}  ", "bold"), (figures, ""), (bar, "cyan"))


def _bar(share: float, width: int) -> str:
    """``share`` of ``width`` in eighths of a character; anything above zero is seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0 and width > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def _operations(operations: tuple[Part, ...], width: int) -> Iterable[_Line]:
    name_width = max(min(max(len(part.name) for part in operations), width - 26), _NAME_WIDTH)
    for part in operations:
        name = part.name if len(part.name) <= name_width else part.name[: name_width - 1] + "…"
        yield ((f"{_INDENT}{name:<{name_width}}", "bold"), (f"  {part.duration:>9}  {part.percent:>6}", ""))


def _finding(card: Card, width: int) -> Iterable[_Line]:
    severity = card.severity.upper()
    style = _SEVERITY_STYLE.get(card.severity, "bold")
    margin = _INDENT * 2
    head = ((f"{_INDENT}{severity:<10}", style), (card.rule, "bold"))
    if len(card.rule) + len(card.cost) + 14 <= width:
        yield (*head, (f"  {card.cost}", ""))
    else:
        yield head
        yield ((f"{margin}{card.cost}", ""),)
    yield from _wrapped(margin, card.summary, width)
    if card.place is not None:
        yield ((f"{margin}at  ", "bold"), (card.place, "cyan"))
    yield from _wrapped(f"{margin}fix ", card.advice, width, "bold green")


def _wrapped(start: str, text: str, width: int, style: str = "") -> Iterable[_Line]:
    """``text`` after ``start``, further lines indented to it; paths and "12 ms" are never broken."""
    room = max(20, width - len(start))
    kept = _BEFORE_UNIT.sub("\0", text)
    wrapped = textwrap.wrap(kept, room, break_long_words=False, break_on_hyphens=False) or [""]
    lines = [line.replace("\0", " ") for line in wrapped]
    yield ((start, style), (lines[0], ""))
    for line in lines[1:]:
        yield ((" " * len(start), ""), (line, ""))
