"""The page's charts: figures of Bokeh as JSON, and the script that draws them.

Owns what the charts have in common: the library, colours that follow the page's style sheet, and their JSON. Bokeh is
imported when a chart is made, and only its core is put into a page. Knows nothing of reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bokeh.models import Model
    from bokeh.plotting import figure

NUM_COLOURS = 8
"""The style sheet has as many colours for parts of a whole, ``--p0`` to ``--p7``."""

FONT = "system-ui, sans-serif"


def blank_figure(height: int, **settings: Any) -> figure:
    """An empty figure of ``height`` pixels, as wide as its place, without a toolbar."""
    from bokeh.plotting import figure

    chart = figure(height=height, sizing_mode="stretch_width", toolbar_location=None, tools="", **settings)
    # Nothing is painted white before the page's own colours are known.
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None
    for axis in chart.axis:
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
        axis.minor_tick_line_color = None
        coloured(
            axis,
            axis_label_text_color="--quiet",
            major_label_text_color="--quiet",
            axis_line_color="--line",
            major_tick_line_color="--line",
        )
    for grid in chart.grid:
        coloured(grid, grid_line_color="--line")
    return chart


def coloured(model: Model, **variables: str | list[str]) -> None:
    """Let these properties of ``model`` have the colours of style sheet variables, in light and in dark."""
    model.tags = [*model.tags, {"colours": variables}]


def as_json(chart: figure) -> Mapping[str, Any]:
    """``chart`` so that ``Bokeh.embed.embed_item`` takes it."""
    from bokeh.embed import json_item

    item: Mapping[str, Any] = json_item(chart)
    return item


@cache
def library() -> str:
    """Bokeh's own script, its core only, from the installed package."""
    from bokeh.resources import Resources

    return str(Resources(mode="inline", minified=True, components=["bokeh"]).js_raw[0])
