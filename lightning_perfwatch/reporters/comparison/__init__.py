"""Reporters of a comparison: two reports side by side as text, JSON, a page or Markdown.

Owns the choice of the format. Loads a reporter only when it is used.
"""

from __future__ import annotations

import importlib

from lightning_perfwatch.comparison import Comparison
from lightning_perfwatch.comparison.comparison import to_document
from lightning_perfwatch.reporters import FORMATS
from lightning_perfwatch.rules import unknown_name

__all__ = ["render"]


def render(comparison: Comparison, format: str) -> str:
    """``comparison`` in one of :data:`~lightning_perfwatch.reporters.FORMATS`.

    Raises:
        ValueError: there is no such format.
    """
    if format not in FORMATS:
        raise ValueError(unknown_name("format", format, FORMATS))
    if format == "json":
        return to_document(comparison)
    return str(importlib.import_module(f"{__name__}.{format}").render(comparison))
