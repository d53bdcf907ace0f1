"""Rule: writing checkpoints takes much of the run."""

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
class CheckpointStall(Rule):
    """Writing checkpoints takes a notable part of the run.

    What it is: training stands still until the weights and the optimizer's state are on the disk.

    Why it costs: with Adam a checkpoint has three times the size of the weights; it is copied to the host, packed and
    written by the thread that trains. No step timer shows it, since callbacks that save run last, between two steps.

    How it is measured: the wall clock in ``save_checkpoint`` and in the hooks of callbacks that write checkpoints,
    over the wall clock of the fit without PerfWatch's own profiling.

    Fix: save less often (``every_n_train_steps``, ``every_n_epochs``), keep the optimizer's state out
    (``save_weights_only=True``), or write on another thread (``AsyncCheckpointIO``).

    Silent when: that is under 5 % of the run or under ``min_s`` in all, or there were fewer than ``min_checkpoints``,
    which say nothing about how often they come.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    wanted_share: float = 0.02
    min_checkpoints: int = 3
    min_s: float = 0.5

    needs: ClassVar[tuple[str, ...]] = ("wall_s", "pauses")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.wall_s is not None and evidence.pauses is not None
        share, pauses = evidence.wall_share("checkpoint"), evidence.pauses
        spent_s = evidence.wall_s.get("checkpoint", 0.0)
        if share is None or share < self.warning_share or spent_s < self.min_s:
            return
        if pauses.num_checkpoints < self.min_checkpoints:
            return
        each_s = spent_s / pauses.num_checkpoints
        every = pauses.checkpoint_every_n_steps
        set_to = f" (every_n_train_steps={every})" if every is not None else ""
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_of="run",
            summary=f"Writing checkpoints takes {100 * share:.0f} % of the run: {pauses.num_checkpoints} of "
            f"them{set_to}, {how_long(each_s)} each.",
            advice=self._advice(pauses, share),
            evidence={
                "checkpoint_s": spent_s,
                "num_checkpoints": pauses.num_checkpoints,
                "every_n_train_steps": every,
            },
        )

    def _advice(self, pauses: Pauses, share: float) -> str:
        rarer = times_rarer(share, self.wanted_share)
        another = "or write on another thread, Trainer(plugins=[AsyncCheckpointIO()])"
        if pauses.checkpoint_every_n_steps is None:
            return f"Set ModelCheckpoint(every_n_epochs={math.ceil(rarer)}) {another}."
        steps = rounded_up(rarer * pauses.checkpoint_every_n_steps)
        return f"Set ModelCheckpoint(every_n_train_steps={steps}) {another}."
