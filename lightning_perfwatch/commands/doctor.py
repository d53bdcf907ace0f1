"""``perfwatch doctor``: what this machine can measure, and what to do about the rest.

Owns the command and how its checks are written. What there is to check, and what it means, is the checkup's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_perfwatch.commands.options import seconds

if TYPE_CHECKING:
    from lightning_perfwatch.checkup.check import Check
    from lightning_perfwatch.reporters.styled import Line

EXIT_OK = 0
EXIT_LACKING = 1
SCHEMA_VERSION = 1

_TIMEOUT_S = 120.0
_MAX_WIDTH = 120
_MIN_WIDTH_OF_COLUMNS = 64
_STYLES = {"ok": "green", "warning": "bold yellow", "missing": "bold red"}


def add_to(commands: Any) -> None:
    """Add the parser of ``perfwatch doctor``."""
    parser = commands.add_parser(
        "doctor",
        help="say what this machine can measure",
        description="Say what this machine can measure, one line a thing: ok, warning or missing, with the remedy. "
        "Exit code 0: nothing is missing that measuring needs; 1: something is.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--log-dir", type=Path, default=Path(), metavar="DIR", help="where runs would be written (default: here)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help=f"the longest that torch may take to answer (default: {_TIMEOUT_S:g})",
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, judge and write; the exit code says whether anything essential is missing."""
    from lightning_perfwatch.checkup.judgement import judge, lacking
    from lightning_perfwatch.checkup.machine import look
    from lightning_perfwatch.reporters import screen
    from lightning_perfwatch.reporters.styled import text_for

    checks = judge(look(arguments.log_dir, arguments.timeout))
    lacks = lacking(checks)
    if arguments.format == "json":
        screen.write(_json(checks, lacks), sys.stdout)
    else:
        screen.show(text_for(sys.stdout, lambda width: _lay_out(checks, lacks, width)), sys.stdout)
    return EXIT_LACKING if lacks else EXIT_OK


def _json(checks: Iterable[Check], lacks: Sequence[Check]) -> str:
    import json

    written = [{**vars(check), "status": check.status.value} for check in checks]
    document = {"schema_version": SCHEMA_VERSION, "can_measure": not lacks, "checks": written}
    return json.dumps(document, indent=2) + "\n"


def _lay_out(checks: Sequence[Check], lacks: Sequence[Check], width: int | None) -> Iterable[Line]:
    """A line a check; where lines have a width, what follows is indented below the text."""
    from lightning_perfwatch.reporters.cells import wrapped
    from lightning_perfwatch.reporters.wording import clean

    name_width = max(len(check.name) for check in checks)
    for check in checks:
        status = check.status.value
        start = ((f"{status:<9}", _STYLES[status]), (f"{check.name:<{name_width}}  ", "bold"))
        start_width = sum(len(text) for text, _ in start)
        indent = " " * (start_width if width is None or width >= _MIN_WIDTH_OF_COLUMNS else 4)
        said = clean(check.detail) if check.remedy is None else f"{clean(check.detail)}. {check.remedy}"
        limit = start_width + len(said) if width is None else min(width, _MAX_WIDTH)
        first, *rest = wrapped(said, limit - len(indent), limit - start_width)
        yield (*start, (first, ""))
        yield from (((indent, ""), (line, "")) for line in rest)
    yield ()
    verdict = "Nothing is missing that PerfWatch needs to measure here."
    if lacks:
        verdict = f"PerfWatch can't measure here as it should: {', '.join(check.name for check in lacks)} missing."
    for line in wrapped(verdict, len(verdict) if width is None else width):
        yield ((line, "bold red" if lacks else "bold"),)
