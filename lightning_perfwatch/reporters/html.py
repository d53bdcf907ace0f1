"""The report as one self-contained page: no script, nothing loaded from elsewhere.

Owns the template's variables. Knows no rule by name; a finding's page comes from its rule's docstring.
"""

from __future__ import annotations

import inspect

from jinja2 import Environment, PackageLoader, StrictUndefined

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.outline import outline
from lightning_perfwatch.rules import all_rules


def render(report: Report) -> str:
    """``report`` as an HTML page."""
    loader = PackageLoader("lightning_perfwatch.reporters")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    said = outline(report)
    pages = {card.rule: _rule_page(card.rule) for card in said.findings}
    page = environment.get_template("report.html.j2").render(said=said, pages=pages)
    return page.encode("utf-8", "replace").decode()


def _rule_page(rule_id: str) -> str | None:
    """The rule's documentation; None for a rule that is not known here, such as one of a newer version."""
    kind = all_rules().get(rule_id)
    return inspect.cleandoc(kind.__doc__) if kind is not None and kind.__doc__ else None
