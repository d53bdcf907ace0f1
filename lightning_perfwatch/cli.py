"""The ``perfwatch`` command: analyse a run or a trace, show a report again, compare and check runs, look up rules.

Owns arguments, exit codes and what goes to stdout and stderr. Each command imports what it needs when it
runs, so that the command starts without torch, lightning, rich or jinja2.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lightning_perfwatch.commands import check, compare, doctor, trigger
from lightning_perfwatch.commands.options import add_output, write_output

if TYPE_CHECKING:
    from lightning_perfwatch.early_readers import EarlyReaders
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.rules import Rule
    from lightning_perfwatch.run_directory import RunDirectory

EXIT_OK = 0
EXIT_UNREADABLE = 2
EXIT_INTERRUPTED = 130

_BACKGROUND_NICENESS = 10
_BEGAN_S = time.perf_counter()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` if None) and return its exit code.

    0: done; 1: a check failed; 2: bad argument or unreadable input, with one sentence on stderr; 130: interrupted.
    """
    _replace_closed_streams()
    if "numpy" not in sys.modules:
        # Its linear algebra is not used, and starting a thread per core for it takes half of what numpy's import takes.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
    except MemoryError:
        return _fail("There is not enough memory for this: analyse a shorter trace, or fewer of them.")
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

    analyze = commands.add_parser("analyze", help="analyse a run directory or traces", allow_abbrev=False)
    paths_help = "run directory, or traces and folders of traces, one a rank"
    analyze.add_argument("paths", type=Path, nargs="+", metavar="PATH", help=paths_help)
    add_output(analyze)
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
    add_output(report)
    report.set_defaults(command=_report)

    compare.add_to(commands)
    check.add_to(commands)
    trigger.add_to(commands)
    doctor.add_to(commands)
    commands.add_parser("rules", help="list all rules").set_defaults(command=_rules)
    explain = commands.add_parser("explain", help="print a rule's page")
    explain.add_argument("rule_id", metavar="ID")
    explain.set_defaults(command=_explain)
    return parser


def _analyze(arguments: argparse.Namespace) -> int:
    if arguments.background:
        _lower_priority()
    from lightning_perfwatch.early_readers import EarlyReaders

    with EarlyReaders(arguments.paths) as early:
        from lightning_perfwatch.rules import rule_class

        rules = _rules_from(arguments.rule)
        ignore = [rule_class(rule_id).id() for rule_id in arguments.ignore]
        # A narrower look at a run is shown, and does not replace the report that the run left.
        store = arguments.background or not (arguments.rule or arguments.ignore)
        _write(_analysis(arguments.paths, rules, ignore, arguments.background, store, early), arguments)
    return EXIT_OK


def _analysis(
    paths: Sequence[Path],
    rules: Sequence[Rule],
    ignore: Sequence[str],
    background: bool,
    store: bool,
    early: EarlyReaders,
) -> Report:
    """The report of a run directory, or of all the traces that ``paths`` stand for."""
    from lightning_perfwatch.bare_trace import analyze_trace
    from lightning_perfwatch.processes import num_usable_cpus
    from lightning_perfwatch.run_directory import RunDirectory

    directory = RunDirectory(paths[0])
    if len(paths) == 1 and directory.evidence_file.exists():
        with _progress(not background, lambda: ([os.getpid()], paths, "")):
            return _analysis_of_run(directory, rules, ignore, store, _BEGAN_S if background else None)
    files = paths if len(paths) == 1 and not paths[0].is_dir() else _traces_of(paths)
    if len(files) == 1:
        early.end()
        num_processes = 1 if background else num_usable_cpus()  # in the background the CPUs are the training's
        with _progress(not background, lambda: ([os.getpid()], files, ""), num_processes):
            return analyze_trace(files[0], rules, ignore, num_processes).report
    from lightning_perfwatch.rank_traces import RankTraces

    ranks = RankTraces(files, rules, ignore, early)
    early.end()  # there were more names that look like traces than traces
    done = f"of {len(files)} traces done"
    with _progress(not background, lambda: (ranks.reader_pids, files, f"{ranks.num_done} {done}, ")):
        return ranks.report()


def _traces_of(paths: Sequence[Path]) -> Sequence[Path]:
    from lightning_perfwatch.rank_traces import trace_files

    return trace_files(paths)


def _analysis_of_run(
    directory: RunDirectory, rules: Sequence[Rule], ignore: Sequence[str], store: bool, since_s: float | None
) -> Report:
    report = directory.analyze(rules, ignore, store=store, since_s=since_s)
    if store:
        from lightning_perfwatch.reporters import render

        directory.write_page(render(report, "html"))
    return report


def _progress(
    shows_progress: bool, state: Callable[[], tuple[Sequence[int], Sequence[Path], str]], num_processes: int = 1
) -> contextlib.AbstractContextManager[None]:
    """A line on stderr, where that is a terminal; ``state`` gives the processes at work, their files, and a start."""
    if not shows_progress or not sys.stderr.isatty():
        return contextlib.nullcontext()
    from lightning_perfwatch.reporters.progress import ProgressLine, reading
    from lightning_perfwatch.trace.parts import ranges

    def describe() -> str:
        pids, paths, start = state()
        return start + reading(pids, paths, len(ranges(paths[0], num_processes)))

    return ProgressLine(sys.stderr, describe)


def _report(arguments: argparse.Namespace) -> int:
    from lightning_perfwatch.commands.reading import read_report

    path: Path = arguments.path
    directory = path if path.is_dir() else path.parent
    _write(replace(read_report(path), directory=str(directory)), arguments)  # it may have been moved
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

    page = inspect.cleandoc(rule_class(arguments.rule_id).__doc__ or "")
    sys.stdout.write(page.replace("``", "`") + "\n")
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

    write_output(arguments, partial(reporters.render, report), partial(terminal.show, report))


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


def _replace_closed_streams() -> None:
    """Python has None for a stream that was closed before it began (``>&-``)."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _forget_stdout() -> None:
    """Whoever read the output is gone; keep the interpreter from complaining when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
