"""The circumstances of a run, as the Trainer and the machine tell them.

Owns the reading of settings. Measures nothing.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.syncs import has_compiled
from lightning_perfwatch.measurements import RunInfo

_CGROUPS = Path("/sys/fs/cgroup")


def describe_run(trainer: Any, module: Any, device: Device) -> RunInfo:
    """The run's settings; what the Trainer does not tell is None."""
    processes_here = max(1, int(trainer.num_devices)) if trainer.world_size > 1 else 1
    lightning = sys.modules.get(type(trainer).__module__.partition(".")[0])
    return RunInfo(
        device_type=device.type,
        device_name=device.name,
        device_is_asynchronous=device.is_asynchronous,
        num_cpus=max(1, num_usable_cpus() // processes_here),
        world_size=trainer.world_size,
        rank=trainer.global_rank,
        model=type(getattr(module, "_orig_mod", module)).__name__,
        num_parameters=_num_parameters(module),
        optimizers=tuple(_optimizer_name(optimizer) for optimizer in trainer.optimizers),
        precision=str(trainer.precision),
        strategy=type(trainer.strategy).__name__,
        accumulate_grad_batches=int(trainer.accumulate_grad_batches),
        compiled=has_compiled(),
        torch_version=str(torch.__version__),
        lightning_version=getattr(lightning, "__version__", None),
        python_version=platform.python_version(),
    )


def _num_parameters(module: Any) -> int | None:
    parameters = list(module.parameters())
    if any(isinstance(parameter, torch.nn.UninitializedParameter) for parameter in parameters):
        return None
    return sum(int(parameter.numel()) for parameter in parameters)


def _optimizer_name(optimizer: Any) -> str:
    """``AdamW(fused)``: the class and which of torch's implementations it was told to use."""
    chosen = [way for way in ("fused", "foreach") if optimizer.defaults.get(way)]
    return type(optimizer).__name__ + (f"({chosen[0]})" if chosen else "")


def num_usable_cpus() -> int:
    """CPUs that this process may use: its affinity, cut down by a control group's quota where there is one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return count if quota is None else max(1, min(count, round(quota)))


def _cgroup_quota() -> float | None:
    """CPUs by the quota of control groups, version 2 or else version 1; None where there is no limit."""
    try:
        if (_CGROUPS / "cpu.max").exists():
            quota, period = (_CGROUPS / "cpu.max").read_text().split()
        else:
            quota = (_CGROUPS / "cpu/cpu.cfs_quota_us").read_text()
            period = (_CGROUPS / "cpu/cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
