"""The templates of pages and what is put into them as it is.

Owns how templates are read and escaped. Knows nothing of what pages say.
"""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_LOADER = PackageLoader("lightning_perfwatch.reporters")
_ENVIRONMENT = Environment(
    loader=_LOADER,
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh's JSON refers to what stood before


def render_page(name: str, **variables: Any) -> str:
    """The template ``name`` with these ``variables``, which are escaped, and the pages' common ``style``.

    A lone surrogate, by which Python spells a path that is no UTF-8, becomes a ``?``.
    """
    text = _ENVIRONMENT.get_template(name).render(style=Markup(source("page.css")), **variables)
    return text.encode("utf-8", "replace").decode()


def source(name: str) -> str:
    """The file ``name`` among the templates, as it is."""
    return _LOADER.get_source(_ENVIRONMENT, name)[0]
