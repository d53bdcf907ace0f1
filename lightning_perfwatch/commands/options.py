"""Options that several commands take, and what they mean: in which format, to which place, for how long.

Owns their help and their sentences. Knows nothing of what is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` and ``-o``, which :func:`write_output` obeys."""
    from lightning_perfwatch.reporters import FORMATS

    format_help = "default: by the ending of FILE (.html, .htm, .md, .markdown or .json), else text"
    parser.add_argument("--format", choices=FORMATS, help=format_help)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE, not to stdout")


def write_output(arguments: argparse.Namespace, render: Callable[[str], str], show: Callable[[TextIO], None]) -> None:
    """Write what ``render`` makes in the format that is wanted; text that goes to stdout is left to ``show``.

    Raises:
        OSError: the file can't be written.
    """
    from lightning_perfwatch.reporters import format_of, screen

    format_ = arguments.format or format_of(arguments.output)
    if arguments.output is not None:
        arguments.output.write_text(render(format_), encoding="utf-8")
    elif format_ == "text":
        show(sys.stdout)
    else:
        screen.write(render(format_), sys.stdout)


def seconds(text: str) -> float:
    """The type of an option that takes a time."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"seconds must be a positive number, got {text!r}")
    return value
