"""Rule: Python's garbage collector stops the training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.interruptions import GcPauses
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class GcPause(Rule):
    """Python's garbage collector stops the training.

    What it is: the collector walks through all objects that could be part of a cycle, to find cycles that nobody
    holds. It does so by itself every few thousand allocations, or when code calls ``gc.collect()``.

    Why it costs: the interpreter stands still meanwhile, and launches nothing. A collection of the oldest generation
    (2) looks at every tracked object of the process: with millions of them (a dataset held as lists of dicts, large
    graphs of Python objects) it takes hundreds of milliseconds.

    How it is measured: every collection in a steady training step is timed (``gc.callbacks``), by generation. One that
    code called for is told by the line that runs when it begins. The share is the time of the collections over that of
    the steps. On a GPU whose queue is full a pause costs less; then the share is an upper bound.

    Fix: drop the call, or make it once an epoch. For the collector's own pauses call ``gc.freeze()`` once after setup,
    in ``on_train_start``, which takes what exists out of every later collection; raise ``gc.set_threshold``; hold large
    data in arrays rather than in objects.

    Silent when: the pauses take under 2 % of the steps, in information between 2 % and 5 %.
    """

    info_share: float = 0.02
    warning_share: float = 0.05
    critical_share: float = 0.25
    min_steps: int = 3

    needs: ClassVar[tuple[str, ...]] = ("gc",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and when there are too few steps."""
        reason = super().skip_reason(evidence)
        if reason is None and evidence.gc and evidence.gc[0].num_steps < self.min_steps:
            return f"{evidence.gc[0].num_steps} steady steps are too few, {self.min_steps} are needed"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding, which names the generation that costs most."""
        pauses = [entry for entry in evidence.gc or () if entry.num_collections and entry.step_s > 0]
        if not pauses:
            return
        share = min(1.0, sum(entry.total_s for entry in pauses) / pauses[0].step_s)
        if share < self.info_share:
            return
        worst = max(pauses, key=lambda entry: entry.total_s)
        is_called = worst.called_s >= worst.total_s / 2
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"The garbage collector takes {100 * share:.1f} % of the training steps: {_collections(worst)}"
            f"{', which the code calls for' if is_called else ''}.",
            advice=_advice(is_called, worst.generation),
            where=Where(file=worst.file, line=worst.line, op="gc.collect") if is_called else Where(),
            evidence={
                f"generation_{entry.generation}": {
                    "num_collections": entry.num_collections,
                    "total_s": entry.total_s,
                    "max_s": entry.max_s,
                    "num_called": entry.num_called,
                }
                for entry in pauses
            }
            | {"num_steps": worst.num_steps, "steps_s": worst.step_s},
        )


def _collections(entry: GcPauses) -> str:
    mean_ms = entry.total_s / entry.num_collections * 1e3
    number = "1 collection" if entry.num_collections == 1 else f"{entry.num_collections} collections"
    return (
        f"{number} of generation {entry.generation} in {entry.num_steps} steps, "
        f"{mean_ms:.1f} ms each and {entry.max_s * 1e3:.1f} ms at most"
    )


def _advice(is_called: bool, generation: int) -> str:
    if is_called:
        return "Drop the call of gc.collect() from the training step, or make it once an epoch."
    often = " and gc.set_threshold(50_000, 20, 50), so that it begins more rarely" if generation < 2 else ""
    return (
        f"Call gc.collect() and gc.freeze() once in on_train_start, so that it passes over what exists by then{often}."
    )
