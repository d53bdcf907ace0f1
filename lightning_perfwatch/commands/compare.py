"""``perfwatch compare BEFORE AFTER``: what a change did to the speed.

Owns the command's arguments and where its output goes.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from lightning_perfwatch.commands.options import add_output, write_output
from lightning_perfwatch.commands.reading import read_report


def add_to(commands: Any) -> None:
    """Add the command's parser to the subparsers ``commands``."""
    parser = commands.add_parser("compare", help="set two runs side by side", allow_abbrev=False)
    parser.add_argument("before", type=Path, metavar="BEFORE", help="run directory or report.json")
    parser.add_argument("after", type=Path, metavar="AFTER", help="run directory or report.json")
    add_output(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and write; 0 whatever came of it. Raises ValueError or OSError for what can't be read or written."""
    from lightning_perfwatch.comparison import compare
    from lightning_perfwatch.reporters.comparison import render
    from lightning_perfwatch.reporters.comparison.text import show

    comparison = compare(read_report(arguments.before), read_report(arguments.after))
    write_output(arguments, partial(render, comparison), partial(show, comparison))
    return 0
