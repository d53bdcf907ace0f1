"""Reporters: a finished :class:`Report` as text, JSON, a page or Markdown; one module per format.

Owns the choice of the format. Knows no rule by name and loads a reporter only when it is used.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from lightning_perfwatch import report as report_json
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import unknown_name

__all__ = ["FORMATS", "format_of", "render"]

FORMATS = ("text", "json", "html", "markdown")
"""What ``--format`` takes."""


_FORMAT_OF_ENDING = {
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".markdown": "markdown",
    ".md": "markdown",
}


def format_of(file: Path | None) -> str:
    """The format that suits a file's name: text where its ending says nothing, and without a file."""
    return _FORMAT_OF_ENDING.get("" if file is None else file.suffix.lower(), "text")


def render(report: Report, format: str) -> str:
    """``report`` in one of :data:`FORMATS`.

    Raises:
        ValueError: there is no such format.
    """
    if format not in FORMATS:
        raise ValueError(unknown_name("format", format, FORMATS))
    if format == "json":
        return report_json.to_json(report)
    name = "terminal" if format == "text" else format
    return str(importlib.import_module(f"{__name__}.{name}").render(report))
