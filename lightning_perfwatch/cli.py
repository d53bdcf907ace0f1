"""The ``perfwatch`` command: analyse a run or a trace, show a report again, look up rules.

Owns arguments, exit codes and what goes to stdout and stderr. Each command imports what it needs when it
runs, so that the command starts without torch, lightning, rich or jinja2.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.rules import Rule

EXIT_OK = 0
EXIT_UNREADABLE = 2
EXIT_INTERRUPTED = 130

_BACKGROUND_NICENESS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` if None) and return its exit code.

    0: done; 2: bad argument or unreadable input, with one sentence on stderr; 130: interrupted.
    """
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except SystemExit as leave:  # argparse has said its sentence, or help was asked for
        return leave.code if isinstance(leave.code, int) else EXIT_UNREADABLE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_UNREADABLE
    except (OSError, ValueError) as error:
        return _fail(_sentence(error))
    return status


class _Parser(argparse.ArgumentParser):
    """A parser that answers a bad argument with one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_UNREADABLE, f"perfwatch: {message}; see {self.prog} --help.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="perfwatch", description="Say why a training run is slow.", allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    analyze = commands.add_parser("analyze", help="analyse a run directory or a trace", allow_abbrev=False)
    analyze.add_argument("path", type=Path, metavar="PATH", help="run directory, trace, or folder with one trace")
    _add_output(analyze)
    analyze.add_argument("--ignore", action="append", default=[], metavar="ID", help="don't ask this rule (repeatable)")
    analyze.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="ID[.FIELD=VALUE]",
        help="ask only the named rules, or set a rule's threshold (repeatable)",
    )
    analyze.add_argument("--background", action="store_true", help="run at low priority")
    analyze.set_defaults(command=_analyze)

    report = commands.add_parser("report", help="show a saved report again", allow_abbrev=False)
    report.add_argument("path", type=Path, metavar="RUN_DIR", help="run directory")
    _add_output(report)
    report.set_defaults(command=_report)

    commands.add_parser("rules", help="list all rules").set_defaults(command=_rules)
    explain = commands.add_parser("explain", help="print a rule's page")
    explain.add_argument("rule_id", metavar="ID")
    explain.set_defaults(command=_explain)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    from lightning_perfwatch.reporters import FORMATS

    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE, not to stdout")


def _analyze(arguments: argparse.Namespace) -> int:
    if arguments.background:
        _lower_priority()
    from lightning_perfwatch.rules import rule_class

    rules = _rules_from(arguments.rule)
    ignore = [rule_class(rule_id).id() for rule_id in arguments.ignore]
    _write(_analysis(arguments.path, rules, ignore), arguments)
    return EXIT_OK


def _analysis(path: Path, rules: Sequence[Rule], ignore: Sequence[str]) -> Report:
    """The report of a run directory, of a trace, or of the one trace in a folder."""
    from lightning_perfwatch.run_directory import RunDirectory

    directory = RunDirectory(path)
    if not path.is_dir():
        return _analysis_of_trace(path, rules, ignore)
    if not directory.evidence_file.exists():
        return _analysis_of_trace(_only_trace(path), rules, ignore)
    report = directory.analyze(rules, ignore)
    from lightning_perfwatch.reporters import render

    directory.write_page(render(report, "html"))
    return report


def _analysis_of_trace(path: Path, rules: Sequence[Rule], ignore: Sequence[str]) -> Report:
    from lightning_perfwatch.diagnosis import diagnose
    from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.trace import TraceError, read_trace

    try:
        evidence = Evidence(trace=read_trace(path), missing=TRACE_ALONE)
    except TraceError as error:
        raise ValueError(str(error)) from error
    return Report.of(evidence, diagnose(evidence, rules, ignore))


def _only_trace(folder: Path) -> Path:
    from lightning_perfwatch.run_directory import TRACE_SUFFIX

    traces = sorted(path for path in folder.iterdir() if path.name.endswith((TRACE_SUFFIX, f"{TRACE_SUFFIX}.gz")))
    if not traces:
        inner = folder / "perfwatch"
        hint = f"; did you mean {inner}?" if (inner / "evidence.json").exists() else "."
        raise ValueError(f"{folder} holds neither evidence.json nor a *{TRACE_SUFFIX}[.gz] file{hint}")
    if len(traces) > 1:
        names = ", ".join(path.name for path in traces)
        raise ValueError(f"{folder} holds {len(traces)} traces, which are read one at a time: {names}.")
    return traces[0]


def _report(arguments: argparse.Namespace) -> int:
    from lightning_perfwatch.run_directory import RunDirectory

    report = RunDirectory(arguments.path).read_report()
    _write(replace(report, directory=str(arguments.path)), arguments)  # it may have been moved
    return EXIT_OK


def _rules(arguments: argparse.Namespace) -> int:
    from lightning_perfwatch.rules import all_rules

    kinds = all_rules()
    width = max(map(len, kinds), default=0)
    for rule_id, kind in kinds.items():
        first_line = (kind.__doc__ or "").strip().partition("\n")[0]
        sys.stdout.write(f"{rule_id:<{width}}  {first_line}".rstrip() + "\n")
    return EXIT_OK


def _explain(arguments: argparse.Namespace) -> int:
    import inspect

    from lightning_perfwatch.rules import rule_class

    sys.stdout.write(inspect.cleandoc(rule_class(arguments.rule_id).__doc__ or "") + "\n")
    return EXIT_OK


def _rules_from(options: Iterable[str]) -> tuple[Rule, ...]:
    """The rules that ``--rule ID`` names (or all), with the thresholds of ``--rule ID.FIELD=VALUE``."""
    from lightning_perfwatch.rules import build_rules

    only: list[str] = []
    thresholds: dict[str, dict[str, object]] = {}
    for option in options:
        target, has_value, value = option.partition("=")
        rule_id, _, field = target.partition(".")
        if has_value and not field:
            raise ValueError(f"--rule takes ID or ID.FIELD=VALUE, got {option!r}.")
        if has_value:
            thresholds.setdefault(rule_id, {})[field] = _number(value)
        else:
            only.append(target)
    return build_rules(thresholds, only)


def _number(text: str) -> int | float | str:
    """``text`` as the number that it spells, else as it is; the rules say what they take."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _write(report: Report, arguments: argparse.Namespace) -> None:
    from lightning_perfwatch import reporters
    from lightning_perfwatch.reporters import terminal

    if arguments.output is not None:
        arguments.output.write_text(reporters.render(report, arguments.format), encoding="utf-8")
    elif arguments.format == "text":
        terminal.show(report, sys.stdout)
    else:
        terminal.write(reporters.render(report, arguments.format), sys.stdout)


def _lower_priority() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Windows has no nice
        os.nice(_BACKGROUND_NICENESS)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = error.filename2 or error.filename
        return f"{place}: {error.strerror}." if place else f"{error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _fail(sentence: str) -> int:
    sys.stderr.write(f"perfwatch: {sentence}\n")
    return EXIT_UNREADABLE


def _forget_stdout() -> None:
    """Whoever read the output is gone; keep the interpreter from complaining when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
