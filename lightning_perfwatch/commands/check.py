"""``perfwatch check RUN_DIR``: a gate for continuous integration.

Owns the command's arguments, its exit status and when the baseline is written.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_perfwatch.commands.reading import read_report

if TYPE_CHECKING:
    from lightning_perfwatch.comparison import Limits, Verdict
    from lightning_perfwatch.report import Report

EXIT_FAILED = 1
_SEVERITIES = ("info", "warning", "critical")
_FORMATS = ("text", "github", "json")


def add_to(commands: Any) -> None:
    """Add the command's parser to the subparsers ``commands``."""
    parser = commands.add_parser("check", help="fail where a run is slower than its baseline", allow_abbrev=False)
    parser.add_argument("path", type=Path, metavar="RUN_DIR", help="run directory or report.json")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="earlier runs, as --update has written them")
    parser.add_argument(
        "--max-slowdown",
        type=_percentage,
        default=0.05,
        metavar="PCT",
        help="how much longer the same work may take, in percent (default: 5)",
    )
    parser.add_argument(
        "--update", action="store_true", help="add this run to the baseline if it passes; the newest twenty are kept"
    )
    parser.add_argument(
        "--accept",
        action="store_true",
        help="with --update: add this run also where it is slower, and let its kind of run start anew",
    )
    parser.add_argument(
        "--fail-on", action="append", default=[], metavar="RULE[,RULE]", help="fail where these rules have a finding"
    )
    parser.add_argument("--max-severity", choices=_SEVERITIES, help="fail where a finding is more severe than this")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="default: text")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Judge the run and say why; 0 if it passes, 1 if not.

    Raises ValueError or OSError for what can't be read, judged or written.
    """
    from lightning_perfwatch.comparison import judge
    from lightning_perfwatch.reporters.screen import write
    from lightning_perfwatch.reporters.verdict import render

    path: Path | None = arguments.baseline
    if path is None and (arguments.update or not (arguments.fail_on or arguments.max_severity)):
        raise ValueError("Name a baseline with --baseline FILE, or what to fail on with --fail-on or --max-severity.")
    if arguments.accept and not arguments.update:
        raise ValueError("--accept says what to do with --update: give both.")
    report = read_report(arguments.path)
    limits = _limits(arguments, report)
    runs = () if path is None else _baseline(path, arguments.update)
    if arguments.update and path is not None:
        verdict, notes = _update(path, runs, report, limits, is_accepted=arguments.accept)
    else:
        verdict, notes = judge(report, None if path is None else runs, limits), []
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    write(render(verdict, arguments.format, notes, root), sys.stdout)
    return 0 if verdict.passes else EXIT_FAILED


def _limits(arguments: argparse.Namespace, report: Report) -> Limits:
    """Rules of the user's own are known where the report speaks of them."""
    from lightning_perfwatch.comparison import Limits
    from lightning_perfwatch.finding import Severity
    from lightning_perfwatch.rules import rule_class

    known = {finding.rule for finding in report.findings} | report.skipped.keys()
    names = [name.strip() for option in arguments.fail_on for name in option.split(",")]
    fail_on = tuple(name if name in known else rule_class(name).id() for name in names if name)
    severity = None if arguments.max_severity is None else Severity(arguments.max_severity)
    return Limits(arguments.max_slowdown, fail_on, severity)


def _baseline(path: Path, may_be_missing: bool) -> tuple[Report, ...]:
    from lightning_perfwatch.baseline import read_baseline

    if not path.exists():
        if may_be_missing:
            return ()
        raise ValueError(f"{path} does not exist: record a baseline there with --update.")
    return read_baseline(path)


def _update(
    path: Path, runs: Sequence[Report], report: Report, limits: Limits, *, is_accepted: bool
) -> tuple[Verdict, list[str]]:
    """Judge by the baseline that there is, and add what passes."""
    from lightning_perfwatch.baseline import with_run, write_baseline
    from lightning_perfwatch.comparison import comparable, judge, require_speed

    require_speed(report)
    alike = comparable(report, runs)
    verdict = judge(report, alike or None, replace(limits, max_slowdown_share=None) if is_accepted else limits)
    if verdict.is_in_baseline:
        return verdict, [f"This run is in {path} already."]
    if not verdict.passes:
        remedy = "to hold this speed from now on, update with --accept" if verdict.is_too_slow else "it has findings"
        return verdict, [f"Not added to the baseline: {remedy}."]
    told = [slowdown for slowdown in (verdict.slowdown, verdict.at_best) if slowdown is not None]
    # A run that is faster than its machine lets expect, and slower all the same, says nothing of those before.
    is_slower = is_accepted and any(one.is_slower and one.now < one.baseline for one in told)
    starts_anew = is_slower or any(one.is_faster and one.now > one.baseline for one in told[:1])
    updated = with_run(runs, report, alike, starts_anew)
    write_baseline(path, updated)
    num_alike = len(comparable(report, updated))
    held = "1 comparable run" if num_alike == 1 else f"{num_alike} comparable runs"
    anew = f", and starts anew: the runs before were {'faster' if is_slower else 'slower'}" if starts_anew else ""
    return verdict, [f"The baseline {path} now holds {held}{anew}."]


def _percentage(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"it takes a percentage such as 5, got {text!r}")
    return value / 100
