"""The timeline of one step: lanes below each other, nested events as rows.

Owns rows, colours and what a lane says in words. Knows nothing of the page around it; what is hovered and zoomed is
up to the page's script, which finds the names by their numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightning_perfwatch.measurements import PHASES
from lightning_perfwatch.reporters.charts import FONT, NUM_COLOURS, add_axis, add_hover, as_json, blank_plot, coloured
from lightning_perfwatch.reporters.wording import amount, clean, duration, label
from lightning_perfwatch.trace import Timeline
from lightning_perfwatch.trace.timeline import Lane

_ROW_PX = 18
_LEAST_ROW_PX = 7
_MOST_PX = 900  # for rows of full height; what has more of them has lower ones
_AXIS_PX = 48
_BAR_HEIGHT = 0.86  # of a row
_LEAST_SHOWN_MS = 0.001
_LEAST_NAME_CHARS, _MOST_NAME_CHARS = 40, 300
_MOST_NAMES_CHARS = 1_500_000  # of all names together


@dataclass(frozen=True)
class LaneSummary:
    """A lane in words: ``busy`` is the time in which it has an event, ``longest`` its longest outermost event."""

    name: str
    num_events: int
    busy_us: float
    busy_share: float
    longest: str
    longest_us: float


def lane_name(lane: Lane) -> str:
    """A lane as a reader calls it; that of a stream names its device."""
    return clean(lane.name) or lane.kind


def shown_names(timeline: Timeline) -> list[str]:
    """The names of events as they are shown: on one line, and long ones cut so that a page stays below its size."""
    room = max(_LEAST_NAME_CHARS, min(_MOST_NAME_CHARS, _MOST_NAMES_CHARS // max(1, len(timeline.names))))
    cleaned = [clean(name[: 2 * room]) or "(no name)" for name in timeline.names]
    return [name if len(name) <= room else f"{name[: room - 1]}…" for name in cleaned]


def summaries(timeline: Timeline, names: list[str]) -> list[LaneSummary]:
    """Every lane in words; the same that the drawing shows."""
    rows = []
    for lane in timeline.lanes:
        outer = [index for index, depth in enumerate(lane.depths) if depth == 0]
        busy_us = sum(lane.duration_us[index] for index in outer)
        longest = max(outer, key=lambda index: lane.duration_us[index], default=None)
        rows.append(
            LaneSummary(
                lane_name(lane),
                len(lane.depths),
                busy_us,
                min(1.0, busy_us / timeline.duration_us) if timeline.duration_us > 0 else 0.0,
                "" if longest is None else names[lane.name_ids[longest]],
                0.0 if longest is None else lane.duration_us[longest],
            )
        )
    return rows


def in_words(timeline: Timeline) -> str:
    """What the timeline shows, in one sentence."""
    num_events = sum(len(lane.depths) for lane in timeline.lanes)
    step = "The profiled window" if timeline.step is None else f"Step {timeline.step} of the trace"
    said = f"{step}: {duration(timeline.duration_us / 1e6)}, {amount(num_events)} events in {len(timeline.lanes)} lanes"
    left_out = f"; the {amount(timeline.num_left_out)} shortest are left out" if timeline.num_left_out else ""
    return f"{said}{left_out}."


def texts(timeline: Timeline, names: list[str]) -> dict[str, list[str]]:
    """The names that the script shows: of events and of lanes, by their numbers in the chart's columns."""
    return {"names": names, "lanes": [lane_name(lane) for lane in timeline.lanes]}


def timeline_chart(timeline: Timeline, names: list[str]) -> Mapping[str, Any]:
    """The chart as Bokeh's JSON. Times are in milliseconds since the step's begin."""
    from bokeh.models import Block, ColumnDataSource, HSpan, LinearColorMapper, PanTool, Range1d, WheelZoomTool

    tops, num_rows = _tops(timeline)
    row_px = max(_LEAST_ROW_PX, min(_ROW_PX, _MOST_PX // max(1, num_rows)))
    whole_ms = max(timeline.duration_us / 1e3, _LEAST_SHOWN_MS)
    time = Range1d(start=0.0, end=whole_ms, bounds=(0.0, whole_ms), min_interval=_LEAST_SHOWN_MS)
    borders = {"min_border_left": 8, "min_border_right": 8}
    plot = blank_plot(num_rows * row_px + _AXIS_PX, x_range=time, y_range=Range1d(start=num_rows, end=0), **borders)
    plot.tags = [{"tops": tops, "row_px": row_px}]
    add_axis(plot, "above", "milliseconds since the step began", with_grid=True)
    lines = HSpan(y="y")
    coloured(lines, line_color="--line")
    plot.add_glyph(ColumnDataSource({"y": tops}), lines)
    mapper = LinearColorMapper(low=-0.5, high=NUM_COLOURS - 0.5, palette=["#888888"] * NUM_COLOURS)
    coloured(mapper, palette=[f"--p{number}" for number in range(NUM_COLOURS)])
    colour: Any = {"field": "colour", "transform": mapper}
    bars = Block(x="begin_ms", y="row", width="duration_ms", height=_BAR_HEIGHT, fill_color=colour, line_color=colour)
    bars.line_width = 0.5  # keeps in sight what is narrower than a pixel
    drawn = plot.add_glyph(ColumnDataSource(_columns(timeline, tops, names), name="events"), bars)
    for name, size, variable in (("event-labels", "11px", "--on-part"), ("lane-labels", "12px", "--quiet")):
        _add_labels(plot, name, size, variable)
    zoom, pan = WheelZoomTool(dimensions="width", modifiers={"ctrl": True}), PanTool(dimensions="width")
    plot.add_tools(pan, zoom)
    plot.toolbar.active_drag, plot.toolbar.active_scroll = pan, zoom
    add_hover(plot, drawn, "events-tips")
    return as_json(plot, "timeline")


def _add_labels(plot: Any, name: str, size: str, variable: str) -> None:
    """Words that the page's script places."""
    from bokeh.models import ColumnDataSource, Text

    words = Text(x="x", y="y", text="text", text_baseline="middle", text_font_size=size, x_offset=3)
    words.text_font = {"value": FONT}
    coloured(words, text_color=variable)
    plot.add_glyph(ColumnDataSource({"x": [], "y": [], "text": []}, name=name), words)


def _tops(timeline: Timeline) -> tuple[list[int], int]:
    """The row of each lane's name, below which its events are, and the number of all rows."""
    tops, row = [], 0
    for lane in timeline.lanes:
        tops.append(row)
        row += 2 + max(lane.depths, default=-1)
    return tops, row


def _columns(timeline: Timeline, tops: list[int], names: list[str]) -> dict[str, Any]:
    """All events of all lanes in columns of one length; times in milliseconds."""
    by_name = np.array([zlib.crc32(name.encode()) % NUM_COLOURS for name in names], np.uint8)
    colours = {"phases": _phase_colours(timeline), "loader": np.full_like(by_name, PHASES.index("data_wait"))}
    columns: dict[str, list[Any]] = {name: [] for name in ("begin_ms", "duration_ms", "row", "colour", "name", "lane")}
    for number, (lane, top) in enumerate(zip(timeline.lanes, tops, strict=True)):
        name_ids = np.array(lane.name_ids, np.int32)
        columns["begin_ms"].append(np.array(lane.begin_us) / 1e3)
        columns["duration_ms"].append(np.array(lane.duration_us) / 1e3)
        columns["row"].append(np.array(lane.depths, np.float32) + np.float32(top + 1.07))
        columns["colour"].append(colours.get(lane.kind, by_name)[name_ids])
        columns["name"].append(name_ids)
        columns["lane"].append(np.full(len(name_ids), number, np.int32))
    return {name: np.concatenate(parts) if parts else np.array([]) for name, parts in columns.items()}


def _phase_colours(timeline: Timeline) -> Any:
    """The colours that phases have in the split of the step too."""
    known = {label(name): number for number, name in enumerate(PHASES)}
    return np.array([known.get(label(name), NUM_COLOURS - 1) for name in timeline.names], np.uint8)
