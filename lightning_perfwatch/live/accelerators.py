"""Which accelerators this machine has, asked in ways that start none of them.

Knows no Trainer. ``torch.cuda.device_count()`` is what Lightning itself asks when a Trainer is made.
"""

from __future__ import annotations

from pathlib import Path

import torch

from lightning_perfwatch.resources import Accelerators

_DRIVER = Path("/proc/driver/nvidia/gpus")


def find_accelerators() -> Accelerators:
    """Those that torch could use now, and those that only the driver of NVIDIA knows of."""
    counts = {"cuda": torch.cuda.device_count(), "xpu": torch.xpu.device_count(), "mps": _num_mps()}
    return Accelerators(
        usable={kind: count for kind, count in counts.items() if count > 0},
        num_nvidia=len(list(_DRIVER.iterdir())) if _DRIVER.is_dir() else 0,
        build=_build(),
    )


def _num_mps() -> int:
    return int(torch.backends.mps.is_available())


def _build() -> str:
    if torch.version.hip is not None:
        return "rocm"
    if torch.version.cuda is not None:
        return "cuda"
    return "xpu" if torch.version.xpu is not None else "cpu"
