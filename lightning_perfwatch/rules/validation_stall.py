"""Rule: validation takes much of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.frequency import how_long, rounded_up, times_rarer
from lightning_perfwatch.measurements import Pauses
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class ValidationStall(Rule):
    """Validation takes a notable part of the run.

    What it is: training stands still while the model is evaluated, more often or on more data than it is worth.

    Why it costs: a validation step costs about a third of a training step (no backward pass), so 10 to 20 % of the
    data once per epoch are 3 to 7 % of the time. Every few steps it is many times that, and no step timer shows it,
    since it lies between two steps.

    How it is measured: the wall clock from Lightning's first validation hook until training goes on, over the wall
    clock of the fit without PerfWatch's own profiling. The validations before training (the sanity check) don't count.

    Fix: raise ``val_check_interval`` or ``check_val_every_n_epoch``, or lower ``limit_val_batches``.

    Silent when: that is under 10 % of the run, or there were fewer than ``min_validations``, which say nothing about
    how often they come.
    """

    warning_share: float = 0.1
    critical_share: float = 0.25
    wanted_share: float = 0.05
    min_validations: int = 2

    needs: ClassVar[tuple[str, ...]] = ("wall_s", "pauses")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.wall_s is not None and evidence.pauses is not None
        share, pauses = evidence.wall_share("validation"), evidence.pauses
        if share is None or share < self.warning_share or pauses.num_validations < self.min_validations:
            return
        spent_s = evidence.wall_s["validation"]
        each_s = spent_s / pauses.num_validations
        every = pauses.val_check_interval
        set_to = f" (val_check_interval={every})" if every is not None else ""
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_of="run",
            summary=f"Validation takes {100 * share:.0f} % of the run: {pauses.num_validations} times{set_to}, "
            f"{how_long(each_s)} each.",
            advice=self._advice(pauses, share),
            evidence={
                "validation_s": spent_s,
                "num_validations": pauses.num_validations,
                "val_check_interval": every,
            },
        )

    def _advice(self, pauses: Pauses, share: float) -> str:
        rarer = times_rarer(share, self.wanted_share)
        limit = "or evaluate less with limit_val_batches"
        goal = f"then it takes some {100 * self.wanted_share:.0f} % of the run"
        if pauses.val_check_interval is None:
            return f"Set Trainer(check_val_every_n_epoch={math.ceil(rarer)}) {limit}: {goal}."
        return f"Set Trainer(val_check_interval={rounded_up(rarer * pauses.val_check_interval)}) {limit}: {goal}."
