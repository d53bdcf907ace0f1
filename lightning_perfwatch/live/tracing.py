"""Sets up what records the windows of a fit, or says why nothing does.

Owns what a Trainer's settings mean for that. Records nothing itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_perfwatch.live.capture import Capture
from lightning_perfwatch.live.rivals import another_profiler
from lightning_perfwatch.live.trace_options import TraceOptions


def capture_for(
    trainer: Any, own: object, directory: Path | None, options: TraceOptions, device_type: str
) -> tuple[Capture | None, str | None]:
    """What records the windows of a fit, and the reason why nothing does although it was asked to.

    Without a ``directory`` this process is not to record.
    """
    if directory is None:
        return None, None
    other = another_profiler(trainer, own)
    reason = other and f"{other} records this run, and two profilers at once lose each other's data"
    try:
        directory.mkdir(parents=True, exist_ok=True)  # rank 0 made it on its own machine only
    except OSError as error:
        reason = reason or f"{directory} can't be made here ({error})"
    if reason is not None:
        return None, reason
    capture = Capture(
        directory=directory,
        worker=f"rank{trainer.global_rank}",
        device_types=[device_type],
        options=options,
        rank=trainer.global_rank,
        world_size=trainer.world_size,
    )
    return capture, None
