"""Rule: one rank is late and all others wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.measurements import RankSummary
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class StragglerRank(Rule):
    """One rank is late in every step, and all others wait for it.

    What it is: a process whose own part of the step takes longer than that of the others: its data comes slower, its
    host is busy, its device is slower or has more to compute.

    Why it costs: gradients are exchanged in each step, so the slowest rank sets the pace of all. On the others the
    same time shows as a long backward pass or as communication, which is only the waiting.

    How it is measured: for each rank the mean time of a step without the part in which ranks wait for each other: the
    backward pass of a run that is watched, exposed communication in a trace. The rank whose time exceeds the median of
    the others most is the straggler, if the others wait that much longer than it does. A part of the step is named as
    the cause if it covers at least ``cause_share`` of the difference.

    Fix: look at the rank and the part that are named: its host's disk and processes, its data, its device's clock; give
    every rank batches of the same size.

    Silent when: the difference is under 10 % of the step, or a rank has fewer than ``min_steps`` steps.
    """

    warning_share: float = 0.1
    critical_share: float = 0.25
    cause_share: float = 0.8
    min_steps: int = 3

    needs_any: ClassVar[tuple[str, ...]] = ("ranks",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where ranks say too little."""
        reason = super().skip_reason(evidence)
        if reason is not None:
            return reason
        ranks = _telling(evidence.ranks)
        if len(ranks) < 2:
            return "fewer than two ranks tell what they spend a step on"
        fewest = min(rank.num_steps or 0 for rank in ranks)
        return (
            None if fewest >= self.min_steps else f"{fewest} steps of a rank are too few, {self.min_steps} are needed"
        )

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding, for the slowest rank."""
        ranks = _telling(evidence.ranks)
        step_s = mean(rank.step_time_s or 0.0 for rank in ranks) if ranks else 0.0
        if len(ranks) < 2 or step_s <= 0:
            return
        # Waiting for one's data is waiting for no other rank; a forward pass may be that (buffers are broadcast in it).
        for parts in (("data_wait", "transfer"), None):
            slowest = max(ranks, key=lambda rank: _own_s(rank, parts))
            others = [rank for rank in ranks if rank is not slowest]
            skew_s = _own_s(slowest, parts) - median(_own_s(rank, parts) for rank in others)
            waits_s = median(rank.waiting_s or 0.0 for rank in others) - (slowest.waiting_s or 0.0)
            share = min(1.0, min(skew_s, step_s) / step_s)
            if share >= self.warning_share and waits_s >= _LEAST_WAITED * skew_s:
                yield self._finding(slowest, others, skew_s, share, step_s)
                return

    def _finding(
        self, slowest: RankSummary, others: Sequence[RankSummary], skew_s: float, share: float, step_s: float
    ) -> Finding:
        excess = {
            part: spent_s - median((rank.own_s or {}).get(part, 0.0) for rank in others)
            for part, spent_s in (slowest.own_s or {}).items()
        }
        part = max(excess, key=lambda name: excess[name])
        known = excess[part] >= self.cause_share * skew_s
        host = f" on {slowest.host}" if slowest.host else ""
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"Rank {slowest.rank}{host} needs {skew_s * 1e3:.0f} ms more of its own in each "
            f"{step_s * 1e3:.0f} ms step than the others ({100 * share:.0f} %), and they wait for it: "
            + (f"{_SPOKEN.get(part, part)}." if known else "no single part of the step explains that."),
            advice=_FIXES.get(part, _ANY_FIX) if known else _ANY_FIX,
            where=Where(rank=slowest.rank),
            evidence={
                "rank": slowest.rank,
                "skew_s": skew_s,
                "part": part if known else None,
                "excess_s": excess,
                "step_s": step_s,
            },
        )


_LEAST_WAITED = 0.5
"""The others must wait for at least this part of the difference, or the rank is not in anybody's way."""

_SPOKEN = {
    "data_wait": "it waits longer for its data",
    "transfer": "its batches take longer to reach the device",
    "forward": "its forward pass takes longer",
    "optimizer": "its optimizer takes longer",
    "callbacks": "its callbacks and hooks take longer",
    "other": "its training loop is held up",
    "host_stall": "its host is busy with something that is neither an operator nor a launch",
    "launch": "its host launches work more slowly",
    "compute": "its device computes longer",
}
_FIXES = {
    "data_wait": "Look at what this rank's loader reads (its disk, its shard, its CPUs) or raise num_workers there.",
    "transfer": "Pin the memory of this rank's loader, pin_memory=True, and look at its batches' sizes.",
    "callbacks": "Do on this rank what the others do: move work under `if trainer.is_global_zero` out of the step.",
    "host_stall": "Look at what this rank's host does beside training: a sleep, a lock, I/O or logging in the step.",
    "launch": "Look for other work on this rank's CPUs, and pin each process to CPUs of its own.",
    "compute": "Give all ranks batches of one size, and compare the clocks and temperatures of the devices.",
    "forward": "Give all ranks batches of one size, and compare the CPUs and devices of the hosts.",
}
_ANY_FIX = "Compare this rank's host with the others': other processes on it, its CPUs, its device's clock."


def _telling(ranks: Sequence[RankSummary]) -> list[RankSummary]:
    """The first window of each rank that tells what its steps are spent on."""
    found: dict[int, RankSummary] = {}
    for rank in ranks:
        if rank.own_s and rank.step_time_s is not None and rank.waiting_s is not None:
            found.setdefault(rank.rank, rank)
    return list(found.values())


def _own_s(rank: RankSummary, parts: Sequence[str] | None) -> float:
    return sum(spent_s for part, spent_s in (rank.own_s or {}).items() if parts is None or part in parts)
