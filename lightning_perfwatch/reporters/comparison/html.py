"""The comparison as one self-contained page in the look of the report's: no script, nothing loaded from elsewhere.

Owns the template's variables. What is said comes from the outline.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.reporters.comparison.outline import outline


def render(comparison: Comparison) -> str:
    """``comparison`` as an HTML page."""
    loader = PackageLoader("lightning_perfwatch.reporters")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = Markup(loader.get_source(environment, "page.css")[0])
    page = environment.get_template("comparison.html.j2").render(said=outline(comparison), style=style)
    return page.encode("utf-8", "replace").decode()
