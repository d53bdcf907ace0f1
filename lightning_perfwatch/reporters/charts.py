"""The page's charts: figures of Bokeh as JSON, and the script that draws them.

Owns what the charts have in common: the library, colours that follow the page's style sheet, and their JSON. Bokeh is
imported when a chart is made, and only its core is put into a page. Knows nothing of reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bokeh.models import Plot
    from bokeh.models.renderers import GlyphRenderer

NUM_COLOURS = 8
"""The style sheet has as many colours for parts of a whole, ``--p0`` to ``--p7``."""

FONT = "system-ui, sans-serif"

Side = Literal["above", "below", "left", "right"]


def blank_plot(height_px: int, **settings: Any) -> Plot:
    """An empty plot of this height, as wide as its place, without a toolbar."""
    from bokeh.models import Plot  # and not bokeh.plotting: that takes half a second longer to import

    plot = Plot(height=height_px, sizing_mode="stretch_width", toolbar_location=None, **settings)
    # Nothing is painted white before the page's own colours are known.
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    return plot


def add_axis(plot: Plot, side: Side, label: str, with_grid: bool, **settings: Any) -> None:
    """An axis with its ``label`` at that ``side`` of the plot."""
    from bokeh.models import Grid, LinearAxis

    axis = LinearAxis(axis_label=label, minor_tick_line_color=None, axis_label_text_font_style="normal", **settings)
    axis.axis_label_text_font = axis.major_label_text_font = FONT
    axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
    coloured(
        axis,
        axis_label_text_color="--quiet",
        major_label_text_color="--quiet",
        axis_line_color="--line",
        major_tick_line_color="--line",
    )
    plot.add_layout(axis, side)
    if with_grid:
        grid = Grid(axis=axis, dimension=0 if side in ("above", "below") else 1)
        coloured(grid, grid_line_color="--line")
        plot.add_layout(grid)


def add_hover(plot: Plot, drawn: GlyphRenderer[Any], name: str) -> None:
    """Let the page's script say what is under the mouse."""
    from bokeh.models import HoverTool

    plot.add_tools(HoverTool(renderers=[drawn], name=name, mode="mouse", tooltips=None))


def coloured(model: Any, **variables: str | list[str]) -> None:
    """Let these properties of ``model`` have the colours of style sheet variables, in light and in dark."""
    model.tags = [*model.tags, {"colours": variables}]


def as_json(plot: Plot, name: str) -> Mapping[str, Any]:
    """``plot`` so that the page's script reads it; ``name`` is the chart's own on its page."""
    from bokeh.document import Document

    document = Document()
    document.add_root(plot)
    stored: Mapping[str, Any] = _numbered(document.to_json(deferred=False), name, {})
    return stored


def _numbered(value: Any, name: str, numbers: dict[str, str]) -> Any:
    """``value`` with its models numbered anew, since Bokeh counts those of the whole process."""
    if isinstance(value, dict):
        return {
            key: numbers.setdefault(item, f"{name}-{len(numbers)}")
            if key == "id" and isinstance(item, str)
            else _numbered(item, name, numbers)
            for key, item in value.items()
        }
    return [_numbered(item, name, numbers) for item in value] if isinstance(value, list) else value


@cache
def library() -> str:
    """Bokeh's own script, its core only, from the installed package."""
    from bokeh.resources import Resources

    return str(Resources(mode="inline", minified=True, components=["bokeh"]).js_raw[0])
