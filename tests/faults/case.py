"""A case: one run of the example, what is wrong with it, and how it is put right.

Owns what a case is. Knows no case, and not how one is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightning_perfwatch.rules import all_rules
from lightning_perfwatch.rules import unknown_name as unknown


@dataclass(frozen=True)
class Case:
    """One run of ``examples/train.py``.

    Args:
        name: what it is called in tables.
        arguments: of ``examples/train.py``, as a user would type them.
        rule: id of the rule that is to find it; None for a run with nothing wrong.
        also: rules that may speak too, because what they say is true: the same cause seen from another side.
        fix: further arguments that take the fault away and nothing else; None where no setting does.
        cpus: how many CPUs the run may use; None for all.
        is_outside: the fault costs time outside of the training steps, so it shows in the wall clock only.
        needs_compiler: the run compiles C++.
        needs_bf16: the fault is one only on a CPU that multiplies bfloat16 in hardware.
        is_quick: one of the few for a short look.
    """

    name: str
    arguments: str = ""
    rule: str | None = None
    also: tuple[str, ...] = ()
    fix: str | None = None
    cpus: int | None = None
    is_outside: bool = False
    needs_compiler: bool = False
    needs_bf16: bool = False
    is_quick: bool = False


@dataclass(frozen=True)
class Recording:
    """Somebody's trace from a real device: ``files`` of one run, a rank each, with ``rule`` and ``also`` as above."""

    name: str
    files: tuple[str, ...]
    rule: str | None
    also: tuple[str, ...] = ()


def unknown_rules(cases: Iterable[Case | Recording]) -> list[str]:
    """One sentence for each rule that a case names and that does not exist."""
    named = {rule for case in cases for rule in (case.rule, *case.also) if rule is not None}
    return [unknown("rule", rule, all_rules()) for rule in sorted(named - set(all_rules()))]
