"""The circumstances of a run, as the Trainer and the machine tell them.

Owns the reading of settings. Measures nothing.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import torch

from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.syncs import has_compiled
from lightning_perfwatch.measurements import RunInfo
from lightning_perfwatch.processes import num_usable_cpus


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
        num_threads=torch.get_num_threads(),
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
