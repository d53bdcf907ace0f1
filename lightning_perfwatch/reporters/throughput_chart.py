"""Throughput over time, with what lay beside the training steps marked.

Owns which rate is drawn over which axis, and the sentence that says the same. Knows nothing of the page around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.measurements import Mark
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.wording import amount, duration

KINDS = {"window": "profiled window", "validation": "validation", "checkpoint": "checkpoint"}
_COLOURS = {"window": "--p3", "validation": "--p4", "checkpoint": "--p1"}
_LEAST_INTERVALS = 2
_HEIGHT_PX = 260
_ROOM = 1.1


@dataclass(frozen=True)
class Rates:
    """One rate per interval, in order. ``x`` are seconds of wall clock or steps, ``name`` is the rate's unit."""

    name: str
    x: tuple[float, ...]
    per_s: tuple[float, ...]
    intervals: tuple[Interval, ...]
    in_seconds: bool


def rates(report: Report) -> Rates | None:
    """What can be drawn of ``report``: tokens, else samples, else steps; None with less than two intervals."""
    counted = () if report.counted is None else report.counted.intervals
    known = [interval for interval in counted if interval.duration_s > 0]
    for name, amounts in (
        ("tokens/s", [interval.tokens for interval in known]),
        ("samples/s", [interval.samples for interval in known]),
        ("steps/s", [interval.num_steps for interval in known]),
    ):
        shown = [(interval, count) for interval, count in zip(known, amounts, strict=True) if count is not None]
        if len(shown) < _LEAST_INTERVALS:
            continue
        in_seconds = all(interval.end_s is not None for interval, _ in shown)
        return Rates(
            name,
            tuple(float(interval.end_s or 0.0) if in_seconds else float(interval.last_step) for interval, _ in shown),
            tuple(count / interval.duration_s for interval, count in shown),
            tuple(interval for interval, _ in shown),
            in_seconds,
        )
    return None


def kinds(marks: tuple[Mark, ...]) -> list[tuple[str, str, int]]:
    """The kinds of marks that there are: kind, in words with their number, and the number."""
    counts = Counter(mark.kind for mark in marks if mark.kind in KINDS)
    return [
        (kind, f"{words}s" if counts[kind] > 1 else words, counts[kind])
        for kind, words in KINDS.items()
        if counts[kind]
    ]


def in_words(shown: Rates, marks: tuple[Mark, ...]) -> str:
    """What the chart shows, for those who don't see it."""
    low, high = min(shown.per_s), max(shown.per_s)
    said = f"{len(shown.x)} intervals, from {amount(low)} to {amount(high)} {shown.name}"
    beside = ", ".join(f"{amount(count)} {words}" for _, words, count in kinds(marks))
    return f"{said}; {beside}." if beside else f"{said}."


def throughput_chart(shown: Rates, marks: tuple[Mark, ...], whole_run: float | None) -> Mapping[str, Any]:
    """The chart as Bokeh's JSON; ``whole_run`` is the rate over the run, drawn as a line."""
    from bokeh.models import ColumnDataSource, DataRange1d, Line, NumeralTickFormatter, Range1d, Scatter
    from bokeh.models.annotations import Span

    from lightning_perfwatch.reporters.charts import add_axis, add_hover, as_json, blank_plot, coloured

    top = max((*shown.per_s, whole_run or 0.0)) * _ROOM or 1.0
    axis = DataRange1d(start=0.0, range_padding=0.02) if shown.in_seconds else DataRange1d(range_padding=0.02)
    plot = blank_plot(_HEIGHT_PX, x_range=axis, y_range=Range1d(start=0.0, end=top))
    add_axis(plot, "below", "seconds since the first step began" if shown.in_seconds else "step", with_grid=False)
    add_axis(plot, "left", shown.name, with_grid=True, formatter=NumeralTickFormatter(format="0,0.[00]"))
    if whole_run is not None:
        average = Span(location=whole_run, dimension="width", line_dash="dashed", line_width=1)
        coloured(average, line_color="--quiet")
        plot.add_layout(average)
    for kind, _, _ in kinds(marks):
        _draw_marks(plot, kind, [mark for mark in marks if mark.kind == kind], shown.in_seconds)
    source = ColumnDataSource(
        {
            "x": list(shown.x),
            "rate": list(shown.per_s),
            "tip": [_tip(shown, index) for index in range(len(shown.x))],
            "size": [7 if interval.clean else 5 for interval in shown.intervals],
            "fill_alpha": [1.0 if interval.clean else 0.0 for interval in shown.intervals],
        },
        name="rates",
    )
    line = Line(x="x", y="rate", line_width=1.5)
    points = Scatter(x="x", y="rate", size="size", fill_alpha="fill_alpha", line_width=1.5)
    coloured(line, line_color="--p2")
    coloured(points, line_color="--p2", fill_color="--p2")
    plot.add_glyph(source, line)
    add_hover(plot, plot.add_glyph(source, points), "rates-tips")
    return as_json(plot, "throughput")


def _draw_marks(plot: Any, kind: str, marks: list[Mark], in_seconds: bool) -> None:
    """Stripes as wide as the marks were long; the line at their edges keeps the short ones in sight."""
    from bokeh.models import ColumnDataSource, VStrip

    from lightning_perfwatch.reporters.charts import add_hover, coloured

    begins = [mark.begin_s if in_seconds else float(mark.step) for mark in marks]
    ends = [begin + mark.duration_s if in_seconds else begin for begin, mark in zip(begins, marks, strict=True)]
    tips = [f"{KINDS[kind]} before step {mark.step}\n{duration(mark.duration_s)}" for mark in marks]
    source = ColumnDataSource({"x0": begins, "x1": ends, "tip": tips}, name=f"{kind}-marks")
    stripes = VStrip(x0="x0", x1="x1", fill_alpha=0.25, line_width=1.5, line_alpha=0.9)
    coloured(stripes, fill_color=_COLOURS[kind], line_color=_COLOURS[kind])
    add_hover(plot, plot.add_glyph(source, stripes), f"{kind}-tips")


def _tip(shown: Rates, index: int) -> str:
    interval = shown.intervals[index]
    at = f"{duration(shown.x[index])}, " if shown.in_seconds else ""
    first = interval.last_step - interval.num_steps + 1
    kind = "" if interval.clean else "\nholds first, audited or profiled steps"
    return f"{amount(shown.per_s[index])} {shown.name}\n{at}steps {first} to {interval.last_step}{kind}"
