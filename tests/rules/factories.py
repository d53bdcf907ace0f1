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
)
from lightning_perfwatch.resources import Accelerators, Clocks, MemoryUse, ProcessorUse, Resources
from lightning_perfwatch.settings import OptimizerSettings, Settings
from lightning_perfwatch.sync_sites import SyncSite, SyncSites
from lightning_perfwatch.trace import Trace
from tests.trace.factories import Json, op, optimizer_step, step, trace

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


def settings(**changes: Any) -> Settings:
    healthy = Settings(
        float32_matmul_precision="highest",
        allow_tf32_matmul=False,
        allow_tf32_cudnn=True,
        cudnn_benchmark=False,
        cudnn_deterministic=False,
        sdp_backends=("flash", "mem_efficient", "math", "cudnn"),
        autocast_dtype="float32",
        optimizers=(OptimizerSettings("AdamW", is_torchs=True, num_parameter_tensors=50, fused=True),),
        num_threads=4,
    )
    return replace(healthy, **changes)


def processor_use(**changes: Any) -> ProcessorUse:
    """A second for each of 20 steps, on four CPUs that nobody else uses."""
    healthy = ProcessorUse(
        num_steps=20, wall_s=20.0, running_s=19.0, delayed_s=0.1, process_s=70.0, num_cpus=4, num_threads=4,
        others_s=0.5,
    )  # fmt: skip
    return replace(healthy, **changes)


def resources(**changes: Any) -> Resources:
    """Those of a run on a CPU."""
    healthy = Resources(
        processors=processor_use(),
        host_memory=MemoryUse("cpu", used_bytes=2**30, num_steps=80),
        clocks=Clocks("cpu", wall_s=20.0, throttled_s=0.0),
        accelerators=Accelerators(),
    )
    return replace(healthy, **changes)


STEP_US = 100_000.0


def step_trace(*events: Json, **metadata: Any) -> Trace:
    """A step of 100 ms on a CPU with these events in it."""
    return trace(step(1, 0.0, STEP_US), *events, **metadata)


def node(name: str, start: float, dur: float, inner: str) -> list[Json]:
    """A node of the backward pass with one operator that takes all of its time."""
    around = op(start, dur, f"autograd::engine::evaluate_function: {name}")
    return [around, op(start, dur, inner)]


def healthy_trace() -> Trace:
    """A layer, its backward pass and a fused optimizer."""
    return step_trace(
        op(100, 44_000, "aten::addmm"),
        *node("AddmmBackward0", 45_000, 44_000, "aten::mm"),
        optimizer_step(90_000, 9_000),
        op(90_100, 8_800, "aten::_fused_adamw_"),
    )


def evidence(**changes: Any) -> Evidence:
    """A healthy run on a CPU, without a trace (``trace=healthy_trace()`` gives it one)."""
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
        settings=settings(),
        resources=resources(),
    )
    return replace(healthy, **changes)
