"""Facts about a machine on which all is well; every one can be replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lightning_perfwatch.checkup.facts import (
    Clock,
    Devices,
    Directory,
    MachineFacts,
    Package,
    Processors,
    Recording,
    TorchBuild,
    TorchFacts,
    Watchers,
)


def torch_facts(**changes: Any) -> TorchFacts:
    known = TorchFacts(
        build=TorchBuild("2.9.0", "cuda", "13.0"),
        devices=Devices("cuda", ("NVIDIA H100", "NVIDIA H100")),
        recording=Recording(("CPU", "CUDA"), 13, 4),
        lightning=Package("2.6.0"),
        watchers=Watchers(),
    )
    return replace(known, **changes)


def machine_facts(**changes: Any) -> MachineFacts:
    known = MachineFacts(
        python_version="3.12.1",
        python_path="/env/bin/python",
        torch=torch_facts(),
        directory=Directory("/logs", None, 50_000_000_000),
        processors=Processors(8, 8, None, True),
        clock=Clock("tsc", 50e-9, 1e-9),
        packages={"lightning": "2.6.0", "tensorboard": "2.20", "torch-tb-profiler": "0.4.3", "nvidia-ml-py": "13.0"},
        has_tensorboard_tab=True,
        shared_memory_bytes=8_000_000_000,
        max_open_files=1024,
        compiler="/usr/bin/g++",
    )
    return replace(known, **changes)
