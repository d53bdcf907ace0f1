"""What the other processes of a distributed run have to say, gathered once at the end of training.

Owns the one collective call besides the choice of the run directory. Knows no rule and no report.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from lightning_perfwatch.counts import Counted
from lightning_perfwatch.measurements import PHASES, RankSummary, StepTimes, Window
from lightning_perfwatch.rates import Rates


@dataclass(frozen=True)
class RankPart:
    """One process's part: None where its PerfWatch is off."""

    summary: RankSummary | None = None
    windows: tuple[Window, ...] = field(default_factory=tuple)

    @classmethod
    def of(cls, rank: int, counted: Counted, steps: StepTimes | None, windows: Iterable[Window]) -> RankPart:
        """The part of a process that measured."""
        rates = Rates.of(counted)
        summary = RankSummary(
            rank=rank,
            host=socket.gethostname(),
            tokens_per_s=rates.tokens_per_s,
            samples_per_s=rates.samples_per_s,
            step_time_s=None if steps is None else steps.mean_step_s,
            data_wait_share=None if steps is None else steps.share("data_wait"),
            nonpadding_tokens_per_s=rates.nonpadding_tokens_per_s,
            samples=counted.samples,
            tokens=counted.tokens,
            nonpadding_tokens=counted.nonpadding_tokens,
            intervals=rates.intervals,
            num_steps=None if steps is None else steps.num_steps,
            own_s=None if steps is None else {name: steps.host_phase_s(name) for name in PHASES if name != "backward"},
            waiting_s=None if steps is None else steps.host_phase_s("backward"),
        )
        return cls(summary, tuple(windows))


def gather(part: RankPart, world_size: int) -> list[RankPart]:
    """The parts of all processes in the order of their ranks.

    A collective call: every process has to make it, also one whose PerfWatch is off.
    """
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if world_size == 1 or not distributed:
        return [part]
    parts: list[RankPart | None] = [None] * world_size
    torch.distributed.all_gather_object(parts, part)
    return [part or RankPart() for part in parts]
