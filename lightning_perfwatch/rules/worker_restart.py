"""Rule: loader workers are started anew in every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class WorkerRestart(Rule):
    """The workers of the data loader are started anew in every epoch.

    What it is: a ``DataLoader`` with workers and without ``persistent_workers`` ends its processes with each epoch.

    Why it costs: starting a worker takes some tenths of a second, more where the dataset is copied to it, and then it
    has to load the first batch; training waits for that at the start of each epoch.

    How it is measured: the time from the epoch's start until its first batch is there, in every epoch but the first,
    less the wait of a steady step, over the wall clock of the fit without PerfWatch's own profiling.

    Fix: ``persistent_workers=True`` in the training ``DataLoader``.

    Silent when: the starts take under 5 % of the run (long epochs), the loader has no workers or keeps them, or there
    was one epoch only, whose start can't be avoided.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("loader", "epoch_starts", "wall_s")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.loader is not None and evidence.epoch_starts is not None and evidence.wall_s is not None
        loader, starts = evidence.loader, evidence.epoch_starts
        later = [start.iterator_s + start.first_wait_s for start in starts if start.epoch > 0]
        if not loader.num_workers or loader.persistent_workers or not later:
            return
        steady_s = 0.0 if evidence.steps is None else evidence.steps.host_phase_s("data_wait")
        lost_s = max(0.0, sum(later) - len(later) * steady_s)
        wall_s = sum(spent_s for part, spent_s in evidence.wall_s.items() if part != "capture")
        share = min(1.0, lost_s / wall_s) if wall_s > 0 else 0.0
        if share >= self.warning_share:
            yield self._finding(loader, lost_s / len(later), len(starts), wall_s, share)

    def _finding(self, loader: LoaderInfo, each_s: float, num_epochs: int, wall_s: float, share: float) -> Finding:
        workers = "1 worker" if loader.num_workers == 1 else f"{loader.num_workers} workers"
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_of="run",
            summary=f"Starting {workers} anew in each epoch takes {each_s:.2f} s an epoch, {100 * share:.0f} % of the "
            "run.",
            advice="Set persistent_workers=True in the training DataLoader, so that its workers live on.",
            evidence={"epoch_start_s": each_s, "num_epochs": num_epochs, "wall_s": wall_s},
        )
