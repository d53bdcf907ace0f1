"""How well faults are found: the table of the fault suite, what its gains are worth, and other tools beside it.

``python -m tests.benchmarks.faults [--quick] [--only NAME] [--gains | --gains-only] [--python PATH]`` prints them and
ends with status 1 if a target is missed. Owns the command and its tables. ``--quick`` takes a few runs only, and their
figures decide nothing but whether all of it runs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lightning_perfwatch.live.settings import cpu_bf16
from tests.benchmarks.measuring import Figure, interleaved, say, say_figures, say_table
from tests.faults import gains, judging, side_by_side
from tests.faults.case import Case, Recording, unknown_rules
from tests.faults.healthy import HEALTHY
from tests.faults.judging import Verdict
from tests.faults.planted import PLANTED
from tests.faults.recorded import FOLDER, RECORDINGS, recordings
from tests.faults.running import Outcome, analyze, train

_NUM_ROUNDS = 3
_NUM_GAINS = 15
_NUM_WORDS_SHOWN = 300


def chosen(cases: Iterable[Case], only: str | None, quick: bool) -> tuple[Case, ...]:
    """Those whose name or rule holds ``only``, and of them the quick ones if ``quick``."""
    return tuple(
        case for case in cases if (not quick or case.is_quick) and (not only or only in case.name or only == case.rule)
    )


def not_runnable(case: Case) -> str | None:
    """Why this machine can't run the case, if it can't."""
    if case.needs_compiler and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        return "torch.compile needs a C++ compiler, and there is none"
    if case.needs_bf16 and cpu_bf16() is None:
        return "this CPU does not multiply bfloat16 in hardware"
    return None


def suite(cases: Sequence[Case], folder: Path, num_jobs: int) -> tuple[list[Verdict], dict[str, Outcome]]:
    """Every case once, judged and told as it comes in."""
    verdicts, outcomes = [], {}
    with ThreadPoolExecutor(num_jobs) as pool:
        runs = pool.map(lambda case: train(case, folder / _file_name(case.name)), cases)
        for case, outcome in zip(cases, runs, strict=True):
            outcomes[case.name] = outcome
            verdicts.append(_verdict(case, outcome))
            say_verdict(verdicts[-1], outcome)
    return verdicts, outcomes


def recorded(chosen_recordings: Sequence[Recording]) -> list[Verdict]:
    """Every recording, judged and told."""
    verdicts = []
    for recording in chosen_recordings:
        outcome = analyze(recording)
        verdicts.append(_verdict(recording, outcome))
        say_verdict(verdicts[-1], outcome)
    return verdicts


def checked_gains(cases: Sequence[Case], folder: Path, num_rounds: int) -> list[gains.Gain]:
    """The cases that have a fix, planted and fixed in turn."""
    results = []
    for case in cases:
        if case.rule is None or case.fix is None:
            continue
        tasks: dict[str, Callable[[], Outcome]] = {
            kind: partial(train, case, folder / f"{_file_name(case.name)}-{kind}", fixed=kind == "fixed")
            for kind in ("planted", "fixed")
        }
        rounds = interleaved(tasks, num_rounds)
        pairs = [
            (before.report, after.report)
            for before, after in zip(rounds["planted"], rounds["fixed"], strict=True)
            if before.report is not None and after.report is not None
        ]
        if not pairs:
            say(f"  {case.name}: a run failed, so its gain is not known")
            continue
        planted, fixed = zip(*pairs, strict=True)
        results.append(gains.gain(case.name, case.rule, planted, fixed, case.is_outside))
        say_gain(results[-1])
    return results


def _verdict(case: Case | Recording, outcome: Outcome) -> Verdict:
    if outcome.report is None:
        return judging.failed(case.name, case.rule, outcome.words)
    return judging.judge(case.name, outcome.findings, case.rule, case.also)


def say_verdict(verdict: Verdict, outcome: Outcome) -> None:
    """One line for a run."""
    if verdict.failure is not None:
        said = f"FAILED: {verdict.failure[-_NUM_WORDS_SHOWN:]}"
    elif verdict.rule is None:
        said = "silent" if not verdict.false_alarms else "ALARM"
    else:
        said = "MISSED" if verdict.rank is None else f"found, place {verdict.rank}"
    wrong = f"  false: {', '.join(verdict.false_alarms)}" if verdict.false_alarms else ""
    say(f"  {verdict.name:<58} {verdict.rule or '-':<22} {outcome.wall_s:>5.0f} s  {said}{wrong}")


_BOUND_SIGNS = {"upper bound": "<=", "estimate": "about", "lower bound": ">="}


def say_gain(one: gains.Gain) -> None:
    """One line for a gain."""
    predicted = "-" if one.predicted is None else f"{_BOUND_SIGNS[one.predicted_is]} {one.predicted:.2f}x"
    error = "-" if one.error is None else f"{100 * one.error:.0f} %"
    say(f"  {one.name:<58} predicted {predicted:>12}  realised {one.realised:>5.2f}x  error {error:>5}")


def say_by_rule(verdicts: Iterable[Verdict]) -> None:
    """How each rule did."""
    by_rule: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_rule.setdefault(verdict.rule or "(nothing wrong)", []).append(verdict)
    rows = [
        (
            rule,
            f"{len(group)}",
            "-" if group[0].rule is None else f"{sum(v.rank is not None for v in group)}",
            "-" if group[0].rule is None else f"{sum(v.rank == 1 for v in group)}",
            f"{sum(len(v.false_alarms) for v in group)}",
        )
        for rule, group in sorted(by_rule.items())
    ]
    say_table(("rule", "runs", "found", "first", "false alarms"), rows)


def _own_row(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    runs = [verdict for verdict in verdicts if verdict.name not in {recording.name for recording in RECORDINGS}]
    planted = [verdict for verdict in runs if verdict.rule is not None]
    found = sum(verdict.rank is not None for verdict in planted)
    false = sum(len(verdict.false_alarms) for verdict in runs)
    return "PerfWatch", f"{found} of {len(planted)}", f"{false}", f"{sum(v.failure is not None for v in runs)}"


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 0 if every target is reached, 1 if not, 2 for a name that does not exist."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few runs only, to see that all of it works")
    parser.add_argument("--only", metavar="NAME", help="cases of this rule, or with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; more than one disturb each other")
    parser.add_argument("--gains", action="store_true", help="run the fixed variants too, and compare the gains")
    parser.add_argument("--gains-only", action="store_true", help="nothing but the gains")
    parser.add_argument("--rounds", type=int, default=_NUM_ROUNDS, help="runs of each variant for --gains")
    parser.add_argument(
        "--python", metavar="PATH", help="interpreter with other tools, to ask them about the same runs"
    )
    options = parser.parse_args(arguments)

    cases = chosen((*HEALTHY, *PLANTED), options.only, options.quick)
    traces = () if options.quick else tuple(
        trace for trace in recordings() if not options.only or options.only in (trace.rule, trace.name)
    )  # fmt: skip
    if not cases and not traces:
        parser.error(f"no case is named or has the rule {options.only!r}")
    unknown = unknown_rules((*cases, *traces))
    for sentence in unknown:
        sys.stderr.write(f"{sentence}\n")
    if unknown:
        return 2
    for case in cases:
        if reason := not_runnable(case):
            say(f"  {case.name}: left out, {reason}")
    cases = tuple(case for case in cases if not not_runnable(case))
    if not options.quick and not traces and not options.only:
        say(f"  the {len(RECORDINGS)} recorded traces are left out: {FOLDER} is not on this machine")
    with tempfile.TemporaryDirectory(prefix="perfwatch-faults-") as name:
        return _report(cases, traces, Path(name), options)


def _report(cases: Sequence[Case], traces: Sequence[Recording], folder: Path, options: argparse.Namespace) -> int:
    scores = [] if options.gains_only else _runs(cases, traces, folder, options)
    if options.gains or options.gains_only:
        say("Gains")
        scores += gains.figures(checked_gains(cases, folder, options.rounds), 0 if options.only else _NUM_GAINS)
        say()
    say_figures(scores)
    return 0 if options.quick or all(score.is_reached for score in scores) else 1


def _runs(
    cases: Sequence[Case], traces: Sequence[Recording], folder: Path, options: argparse.Namespace
) -> list[Figure]:
    say("Runs")
    verdicts, outcomes = suite(cases, folder, options.jobs)
    verdicts += recorded(traces)
    say()
    say_by_rule(verdicts)
    say()
    if options.python:
        say("Other tools on the same runs, asked for the same causes")
        shown = [(case, trace) for case in cases if (trace := outcomes[case.name].trace) is not None]
        say_table(
            ("tool", "faults named", "false alarms", "unreadable"),
            [_own_row(verdicts), *side_by_side.rows(options.python, shown)],
        )
        say()
    return judging.figures(verdicts)


if __name__ == "__main__":
    sys.exit(main())
