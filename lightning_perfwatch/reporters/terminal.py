"""The report as text for a terminal, a log file or a pipe.

Owns the layout in lines: as wide as a terminal, and one fact a line where nothing says how wide a line may be. Knows
no rule by name; what is said comes from the outline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import screen
from lightning_perfwatch.reporters.cells import cropped, padded, width_of, wrapped
from lightning_perfwatch.reporters.outline import Card, Outline, Part, outline
from lightning_perfwatch.reporters.styled import Line, colored, plain, text_for
from lightning_perfwatch.reporters.wording import Fact

_MIN_WIDTH, _MAX_TEXT_WIDTH = 24, 120
_MIN_WIDTH_OF_TWO_COLUMNS = 64
"""Below it a name and what is known of it stand one after the other, not side by side."""

_UNLIMITED = 1 << 30
_NUM_OPERATIONS = 3
_NUM_RANKS = 8
_INDENT = "  "
_NAME_WIDTH = len("callbacks and logging")
_BAR_WIDTH = 30
_PERCENT_WIDTH = len("<0.1 %")
_SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "bold blue"}
_HEADING, _NAME, _FIGURE, _BAR, _PLACE, _FIX = "bold", "cyan", "bold", "green", "underline", "bold green"


def render(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """``report`` as lines of ``width`` columns (whole lines if None), plain unless ``color``.

    Places and paths are never broken, so that they can be searched and copied.
    """
    lines = _lay_out(report, width)
    return colored(lines) if color else plain(lines)


def show(report: Report, stream: TextIO, bar: Any = None) -> None:
    """Write ``report`` to ``stream``, as wide as the terminal if it is one; in colour where rich would do so.

    ``bar`` is the Trainer's progress bar callback, if there is one.
    """
    screen.show(text_for(stream, lambda width: _lay_out(report, width)), stream, bar)


def window_line(report: Report) -> str:
    """One line on the newest window of ``report``, for a training that goes on."""
    said = outline(report)
    window = report.windows[-1] if report.windows else None
    steps = "" if window is None else f" steps {window.first_step} to {window.first_step + window.num_steps - 1}"
    if not said.findings:
        return f"PerfWatch profiled{steps}: no bottleneck found."
    count = "1 finding" if len(said.findings) == 1 else f"{len(said.findings)} findings, first"
    return f"PerfWatch profiled{steps}: {count} {said.findings[0].rule} ({said.findings[0].cost})."


def _lay_out(report: Report, width: int | None) -> Iterable[Line]:
    return _lines(outline(report), _UNLIMITED if width is None else max(_MIN_WIDTH, width))


def _lines(said: Outline, width: int) -> Iterable[Line]:
    yield from _wrapped("PerfWatch  ", said.headline, width, _HEADING)
    yield from _facts(said.speed, width)
    if said.outside is not None:
        yield from _facts([Fact("outside steps", said.outside)], width)
    yield from _facts(said.devices, width)
    if said.step_total is not None:
        yield _heading("the mean step")
        yield from _parts(said.step, said.step_total, width)
    if said.operations:
        yield from _wrapped("", "slowest operations (self time, share of the profiled window)", width, "", _HEADING)
        yield from _operations(said.operations[:_NUM_OPERATIONS], width)
    if said.findings:
        yield _heading("findings (most severe first)")
    for card in said.findings:
        yield from _finding(card, width)
    if said.verdict is not None:
        yield from _wrapped("", said.verdict, width, "", _HEADING)
    yield ()
    yield from _facts(_closing(said), width)
    for fact in said.files:
        yield ((_name(fact.name, width), _NAME), (fact.value, ""))


def _closing(said: Outline) -> Iterable[Fact]:
    yield from said.ranks[:_NUM_RANKS]
    if len(said.ranks) > _NUM_RANKS:
        yield Fact("more ranks", f"{len(said.ranks) - _NUM_RANKS}, in the report")
    for reason, rules in said.skipped:
        yield Fact("rule skipped" if len(rules) == 1 else "rules skipped", f"{', '.join(rules)}: {reason}")
    if said.overhead is not None:
        yield Fact("PerfWatch itself", said.overhead)
    for note in said.notes:
        yield Fact("note", note)


def _heading(text: str) -> Line:
    return ((text, _HEADING),)


def _facts(facts: Iterable[Fact], width: int) -> Iterable[Line]:
    for fact in facts:
        yield from _wrapped(_name(fact.name, width), fact.value, width, _NAME)


def _name(name: str, width: int) -> str:
    return _INDENT + (name if width < _MIN_WIDTH_OF_TWO_COLUMNS else padded(name, _NAME_WIDTH)) + "  "


def _parts(parts: tuple[Part, ...], total: Part, width: int) -> Iterable[Line]:
    """One line a part: name, duration, share and a bar as long as the share."""
    duration_width = max(len(part.duration) for part in (*parts, total))
    gap = "  " if width >= _MIN_WIDTH_OF_TWO_COLUMNS else " "
    figures_width = len(gap) + duration_width + len(gap) + _PERCENT_WIDTH
    name_width = min(_NAME_WIDTH, max(width - len(_INDENT) - figures_width, 4))
    bar_width = min(_BAR_WIDTH, max(width - len(_INDENT) - name_width - figures_width - len(gap), 0))
    for part in (*parts, total):
        name = _INDENT + padded(cropped(part.name, name_width), name_width) + gap
        figures = f"{part.duration:>{duration_width}}{gap}{part.percent:>{_PERCENT_WIDTH}}{gap}"
        if part is total:
            yield ((name, _FIGURE), (figures, _FIGURE))
        else:
            yield ((name, _NAME), (figures, ""), (_bar(part.share, bar_width), _BAR))


def _bar(share: float, width: int) -> str:
    """``share`` of ``width`` in eighths of a character; anything above zero is seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0 and width > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def _operations(operations: tuple[Part, ...], width: int) -> Iterable[Line]:
    duration_width = max(len(part.duration) for part in operations)
    room = width - len(_INDENT) - duration_width - _PERCENT_WIDTH - 4
    name_width = max(min(max(width_of(part.name) for part in operations), room), 8)
    for part in operations:
        name = _INDENT + padded(cropped(part.name, name_width), name_width)
        yield ((name, _NAME), (f"  {part.duration:>{duration_width}}  {part.percent:>{_PERCENT_WIDTH}}", ""))


def _finding(card: Card, width: int) -> Iterable[Line]:
    severity = f"{_INDENT}{card.severity.upper():<8}  "
    style = _SEVERITY_STYLE.get(card.severity, "bold")
    margin = _INDENT * 2
    head = ((severity, style), (card.rule, _FIGURE))
    if width_of(card.rule) + width_of(card.cost) + len(severity) + 2 <= width:
        yield (*head, (f"  {card.cost}", ""))
    else:
        yield head
        yield from _wrapped(margin, card.cost, width)
    yield from _wrapped(margin, card.summary, width)
    if card.place is not None:
        yield ((f"{margin}at  ", _NAME), (card.place, _PLACE))
    yield from _wrapped(f"{margin}fix ", card.advice, width, _FIX)


def _wrapped(start: str, text: str, width: int, style: str = "", text_style: str = "") -> Iterable[Line]:
    """``text`` after ``start``, further lines indented to it; paths and "12 ms" are never broken."""
    if width == _UNLIMITED:
        yield ((start, style), (text, text_style))
        return
    is_narrow = width < _MIN_WIDTH_OF_TWO_COLUMNS
    indent = " " * (min(width_of(start), 2 * len(_INDENT)) if is_narrow else width_of(start))
    limit = min(width, _MAX_TEXT_WIDTH)
    first, *rest = wrapped(text, limit - len(indent), limit - width_of(start))
    yield ((start, style), (first, text_style))
    for line in rest:
        yield ((indent, ""), (line, text_style))
