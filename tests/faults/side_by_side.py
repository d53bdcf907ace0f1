"""Asks other tools about the traces of the suite's runs, and counts which causes they name.

Owns who is asked and what counts as named. Knows nothing of how a tool is spoken to.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.case import Case
from tests.faults.rivals import MISSING, TOOLS

_SCRIPT = Path(__file__).with_name("rivals.py")
_LIMIT_S = 300.0
OTHERS = {
    "TraceML": "it watches a training live, launched by itself, and reads no trace",
    "gpuprof": "it watches a training on a GPU live, and reads no trace",
}
"""Tools that a trace can't be shown to, and why."""


@dataclass(frozen=True)
class Opinion:
    """What a tool said of one run: rules in its order; None where it failed on this trace."""

    case: Case
    rules: tuple[str, ...] | None

    @property
    def is_right(self) -> bool:
        """Whether the fault is among what it said."""
        return self.rules is not None and self.case.rule in self.rules

    @property
    def num_false(self) -> int:
        """How many causes it named that are none."""
        return sum(rule != self.case.rule and rule not in self.case.also for rule in self.rules or ())


def opinions(python: str, tool: str, traces: Iterable[tuple[Case, Path]]) -> list[Opinion] | None:
    """The tool's opinion of each trace; None where ``python`` does not have the tool."""
    said = []
    for case, trace in traces:
        done = subprocess.run(
            [python, str(_SCRIPT), tool, str(trace)], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        if done.returncode == MISSING:
            return None
        said.append(Opinion(case, tuple(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None))
    return said


def rows(python: str, traces: Sequence[tuple[Case, Path]]) -> list[tuple[str, ...]]:
    """One row a tool: faults named, false alarms in all runs, traces that it can't read."""
    planted = sum(case.rule is not None for case, _ in traces)
    table: list[tuple[str, ...]] = []
    for tool in TOOLS:
        said = opinions(python, tool, traces)
        if said is None:
            table.append((tool, f"{python} does not have it", "-", "-"))
            continue
        named = sum(opinion.is_right for opinion in said)
        false = sum(opinion.num_false for opinion in said)
        unread = sum(opinion.rules is None for opinion in said)
        table.append((tool, f"{named} of {planted}", f"{false}", f"{unread}"))
    table += [(tool, f"not asked: {why}", "-", "-") for tool, why in OTHERS.items()]
    return table
