"""The comparison as one self-contained page in the look of the report's: no script, nothing loaded from elsewhere.

Owns the template's variables. What is said comes from the outline.
"""

from __future__ import annotations

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.reporters.comparison.outline import outline
from lightning_perfwatch.reporters.page_template import render_page


def render(comparison: Comparison) -> str:
    """``comparison`` as an HTML page."""
    return render_page("comparison.html.j2", said=outline(comparison))
