"""What the other processes of a distributed run have to say, gathered once at the end of training.

Owns the one collective call besides the choice of the run directory. Knows no rule and no report.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from lightning_perfwatch.measurements import RankSummary, Window


@dataclass(frozen=True)
class RankPart:
    """One process's part: None where its PerfWatch is off."""

    summary: RankSummary | None = None
    windows: tuple[Window, ...] = field(default_factory=tuple)


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
