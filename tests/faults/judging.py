"""What a report is worth: was the fault found, how far up, and what else was said that is not true.

Owns the verdict of one run and the score of many. Knows neither cases nor how they are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.measuring import Figure

_ALARMS = ("warning", "critical")


@dataclass(frozen=True)
class Verdict:
    """One run judged.

    Args:
        name: of the case.
        rule: that was to find it; None for a healthy run.
        rank: its place in the list of findings, from 1; None where it is not there.
        num_true: warnings and critical findings that are the fault, or as true.
        false_alarms: rules of all other warnings and critical findings.
        failure: why there is no report, in the run's own last words.
    """

    name: str
    rule: str | None
    rank: int | None
    num_true: int
    false_alarms: tuple[str, ...]
    failure: str | None = None


def judge(name: str, findings: Iterable[Mapping[str, Any]], rule: str | None, also: Sequence[str] = ()) -> Verdict:
    """The verdict of these findings, where ``rule`` is at fault and the rules in ``also`` may say so too."""
    findings = list(findings)
    ranks = [number for number, finding in enumerate(findings, 1) if finding["rule"] == rule]
    alarms = [finding["rule"] for finding in findings if finding["severity"] in _ALARMS]
    false_alarms = tuple(alarm for alarm in alarms if alarm != rule and alarm not in also)
    return Verdict(name, rule, min(ranks, default=None), len(alarms) - len(false_alarms), false_alarms)


def failed(name: str, rule: str | None, words: str) -> Verdict:
    """The verdict of a run that left no report."""
    return Verdict(name, rule, None, 0, (), failure=words or "it said nothing")


def figures(verdicts: Sequence[Verdict]) -> list[Figure]:
    """How many faults were found, how many stood first, and how much of what was said is true."""
    planted = [verdict for verdict in verdicts if verdict.rule is not None]
    healthy = [verdict for verdict in verdicts if verdict.rule is None]
    num_true = sum(verdict.num_true for verdict in verdicts)
    num_false = sum(len(verdict.false_alarms) for verdict in verdicts)
    scores = [Figure("runs without a report", sum(v.failure is not None for v in verdicts), 0, "runs", at_least=False)]
    if planted:
        found = sum(verdict.rank is not None for verdict in planted)
        first = sum(verdict.rank == 1 for verdict in planted)
        scores += [
            Figure(f"recall: {found} of {len(planted)} faults found", found / len(planted), 0.95, ""),
            Figure(f"first in the list: {first} of {len(planted)}", first / len(planted), 0.9, ""),
        ]
    if num_true + num_false:
        scores.append(
            Figure(
                f"precision: {num_true} of {num_true + num_false} alarms true",
                num_true / (num_true + num_false),
                0.95,
                "",
            )
        )
    if healthy:
        num_alarms = sum(len(verdict.false_alarms) for verdict in healthy)
        scores.append(Figure(f"alarms in {len(healthy)} healthy runs", num_alarms, 0, "", at_least=False))
    return scores
