"""``perfwatch compare BEFORE AFTER``: what a change did to the speed.

Owns the command's arguments and where its output goes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lightning_perfwatch.commands.reading import read_report


def add_to(commands: Any) -> None:
    """Add the command's parser to the subparsers ``commands``."""
    from lightning_perfwatch.reporters import FORMATS

    parser = commands.add_parser("compare", help="set two runs side by side", allow_abbrev=False)
    parser.add_argument("before", type=Path, metavar="BEFORE", help="run directory or report.json")
    parser.add_argument("after", type=Path, metavar="AFTER", help="run directory or report.json")
    format_help = "default: by the ending of FILE (.html, .htm, .md, .markdown or .json), else text"
    parser.add_argument("--format", choices=FORMATS, help=format_help)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE, not to stdout")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and write; 0 whatever came of it. Raises ValueError or OSError for what can't be read or written."""
    from lightning_perfwatch.comparison import compare
    from lightning_perfwatch.reporters import format_of
    from lightning_perfwatch.reporters.comparison import render
    from lightning_perfwatch.reporters.comparison.text import show
    from lightning_perfwatch.reporters.screen import write

    comparison = compare(read_report(arguments.before), read_report(arguments.after))
    format_ = arguments.format or format_of(arguments.output)
    if arguments.output is not None:
        arguments.output.write_text(render(comparison, format_), encoding="utf-8")
    elif format_ == "text":
        show(comparison, sys.stdout)
    else:
        write(render(comparison, format_), sys.stdout)
    return 0
