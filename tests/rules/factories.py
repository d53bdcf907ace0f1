"""Evidence for rules: a healthy run, with what a test changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.interruptions import GcPauses
from lightning_perfwatch.measurements import (
    PHASES,
    EpochStart,
    HookTime,
    LoaderInfo,
    LoadProbe,
    Pauses,
    RankSummary,
    RunInfo,
    StepTimes,
    SyncSite,
    SyncSites,
)

HEALTHY_MS = {"data_wait": 0.3, "transfer": 0.1, "forward": 45.0, "backward": 45.0, "optimizer": 9.0, "callbacks": 0.4}


def step_times(num_steps: int = 20, *, on_device: bool = False, **phases_ms: float) -> StepTimes:
    """Equal steps of about 100 ms, with the phases given in milliseconds."""
    row = [{**HEALTHY_MS, "other": 0.2, **phases_ms}[name] / 1e3 for name in PHASES]
    seconds = np.tile(np.array(row), (num_steps, 1))
    return StepTimes(seconds, seconds.copy() if on_device else None)


def run_info(**changes: Any) -> RunInfo:
    return replace(RunInfo("cpu", "cpu", device_is_asynchronous=False, num_cpus=4), **changes)


def on_gpu(**changes: Any) -> RunInfo:
    return run_info(device_type="cuda", device_name="NVIDIA H200", device_is_asynchronous=True, **changes)


def loader(**changes: Any) -> LoaderInfo:
    healthy = LoaderInfo(
        "DataLoader", num_workers=0, batch_size=16, persistent_workers=False, pin_memory=False, sized=True
    )
    return replace(healthy, **changes)


def sync_site(**changes: Any) -> SyncSite:
    user = SyncSite(
        call=".item()",
        owner="user",
        device_type="cpu",
        calls_per_step=1.0,
        s_per_step=4e-6,
        in_every_step=True,
        file="/home/me/train.py",
        line=12,
        function="training_step",
        code="loss.item()",
    )
    return replace(user, **changes)


def hook_time(**changes: Any) -> HookTime:
    return replace(HookTime("Meter", "on_train_batch_end", s_per_step=1e-4, max_s=2e-4), **changes)


def probe(**changes: Any) -> LoadProbe:
    known = LoadProbe(0.05, 0.001, "/home/me/data.py", 7, "/home/me/data.py", 30)
    return replace(known, **changes)


def epoch_starts(*seconds: float) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(epoch, iterator_s=spent, first_wait_s=0.0) for epoch, spent in enumerate(seconds))


def pauses(**changes: Any) -> Pauses:
    return replace(Pauses(num_validations=2, num_checkpoints=3), **changes)


def rank_summary(rank: int, waiting_s: float = 0.03, **own_s: float) -> RankSummary:
    """A rank of steps of 100 ms, of which it waits ``waiting_s`` for others."""
    parts = {"data_wait": 0.001, "transfer": 0.001, "forward": 0.06, "optimizer": 0.01, **own_s}
    return RankSummary(rank, "node", None, None, 0.1, 0.01, num_steps=20, own_s=parts, waiting_s=waiting_s)


def evidence(**changes: Any) -> Evidence:
    """A healthy run on a CPU."""
    healthy = Evidence(
        run=run_info(),
        steps=step_times(),
        hooks=(hook_time(),),
        loader=loader(),
        syncs=SyncSites(num_steps=2),
        epoch_starts=epoch_starts(0.001),
        wall_s={"training": 2.0, "validation": 0.05, "checkpoint": 0.02, "epoch_start": 0.001, "capture": 0.5},
        pauses=pauses(),
        gc=tuple(GcPauses(generation, 0, 0.0, 0.0, num_steps=20, step_s=2.0) for generation in range(3)),
        compilations=(),
    )
    return replace(healthy, **changes)
