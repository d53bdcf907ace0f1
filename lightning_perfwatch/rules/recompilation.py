"""Rule: torch.compile compiles again while training goes on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.interruptions import Compilation
from lightning_perfwatch.rules.rule import Rule

_SHAPE_WORDS = ("size mismatch", "size()", "shape", "stride")


@dataclass(frozen=True)
class Recompilation(Rule):
    """torch.compile compiles again while training goes on.

    What it is: compiled code holds for the inputs for which its guards hold. A batch of another length, a Python number
    that changes, another mode of the module: each makes dynamo compile the function once more.

    Why it costs: the step stands still while it compiles, for seconds, and after 8 versions
    (``torch._dynamo.config.recompile_limit``) the function is run uncompiled for good.

    How it is measured: dynamo's own records say what was compiled in which step, how long it took and which guard had
    failed. Compilations count from step ``first_step`` on: before that a function is compiled first, and once more
    where a number or a length turns out to vary, which has to be. A step with one loses what it takes longer than the
    median step, both without the wait for data and callbacks (8 % more than dynamo's own figure in one measurement:
    guards are built, and new code runs for the first time). The share is that over all time spent on training without
    what the first step lost, as in throughput; so it falls with the length of the run. It is a lower bound where a
    function was compiled ``recompile_limit`` times: that runs uncompiled since, and what this costs is not known.

    Fix: give inputs a fixed length (``drop_last=True``, padding to multiples of 64), mark what varies with
    ``torch._dynamo.mark_dynamic`` or ``torch.compile(dynamic=True)``, pass numbers that change as tensors.

    Silent when: nothing was compiled after the first steps, or it took under 1 % of the training.
    """

    info_share: float = 0.01
    warning_share: float = 0.05
    critical_share: float = 0.25
    first_step: int = 3
    recompile_limit: int = 8

    needs: ClassVar[tuple[str, ...]] = ("compilations", "wall_s")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding, which names the function that costs most."""
        training_s = (evidence.wall_s or {}).get("training", 0.0)
        usual_s = None if evidence.steps is None else float(np.median(evidence.steps.computing_s))
        compilations = evidence.compilations or ()
        again = [one for one in compilations if one.step >= self.first_step]
        spent_s = _lost_s(again, usual_s)
        training_s -= _lost_s([one for one in compilations if one.step == 0], usual_s)
        if not again or training_s <= 0 or not spent_s / training_s >= self.info_share:  # broken numbers are none
            return
        worst = max(_by_function(again), key=lambda found: sum(one.compile_s for one in found))
        share = min(1.0, spent_s / training_s)
        runs_uncompiled = any(len(found) >= self.recompile_limit for found in _by_function(compilations))
        reason = next((one.reason for one in worst if one.reason), None)
        steps = tuple(sorted({one.step for one in again}))
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="lower bound" if runs_uncompiled else "upper bound",
            summary=f"torch.compile compiled {_times(len(again))} while training went on, {spent_s:.1f} s or "
            f"{100 * share:.0f} % of it, most of it {worst[0].function}(){f': {reason}' if reason else ''}.",
            advice=_advice(reason),
            where=Where(file=worst[0].file, line=worst[0].line, op=worst[0].function, steps=steps[:20]),
            evidence={
                "num_compilations": len(again),
                "compile_s": sum(one.compile_s for one in again),
                "lost_s": spent_s,
                "training_s": training_s,
                "reasons": sorted({one.reason for one in again if one.reason})[:5],
            },
        )


def _by_function(compilations: Iterable[Compilation]) -> list[list[Compilation]]:
    found: dict[tuple[str, str | None, int | None], list[Compilation]] = defaultdict(list)
    for one in compilations:
        found[one.function, one.file, one.line].append(one)
    return list(found.values())


def _lost_s(compilations: Iterable[Compilation], usual_s: float | None) -> float:
    """What the steps of these take longer than ``usual_s``, and at least what compiling took."""
    compile_s: dict[int, float] = defaultdict(float)
    step_s: dict[int, float] = {}
    for one in compilations:
        compile_s[one.step] += one.compile_s
        if one.step_s is not None:
            step_s[one.step] = one.step_s
    usual = math.inf if usual_s is None else usual_s
    return sum(max(spent, step_s.get(step, 0.0) - usual) for step, spent in compile_s.items())


def _times(number: int) -> str:
    return "once more" if number == 1 else f"{number} times more"


def _advice(reason: str | None) -> str:
    if reason is None:
        return "Run with TORCH_LOGS=recompiles to see which guard fails, and keep that input the same."
    if any(word in reason for word in _SHAPE_WORDS):
        return (
            "Give batches a fixed length (pad to a multiple of 64, drop_last=True), or compile with "
            "torch.compile(model, dynamic=True)."
        )
    return "Keep what the guard names the same in every step, or pass it as a tensor instead of a Python value."
