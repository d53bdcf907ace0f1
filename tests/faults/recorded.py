"""Real traces from real devices, labelled by an independent reading of each; they lie beside the project, not in it.

Owns the labels. Where the folder is missing there are no recordings.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.case import Recording

FOLDER = Path(__file__).parents[3] / "shared" / "traces"

_END = ".pt.trace.json.gz"

# The rule is the main verdict of the reading in the folder's INDEX.tsv, the others are what it says besides.
RECORDINGS = (
    Recording("bert on H100, 7 % busy", (f"bert_small_h100{_END}",), "launch-bound"),
    Recording("bert on MI300X, 10 % busy", (f"bert_small_mi300{_END}",), "launch-bound"),
    Recording(
        "copies from pageable memory on A100",
        (f"copies_pageable_a100{_END}",),
        "unpinned-copy",
        ("device-copy", "host-sync"),
    ),
    Recording("copies from pinned memory on A100", (f"copies_pinned_a100{_END}",), "device-copy"),
    Recording(
        "CUDA graphs in fp32 on RTX 3060, 99 % busy", (f"gpu_bound_cuda_graphs_rtx3060{_END}",), "full-precision-matmul"
    ),
    Recording("Lightning on a CPU, loader 21 %", (f"lightning_cpu_legacy_list{_END}",), "dataloader-starvation"),
    Recording(
        "mixture of experts on B200, copies to the host in each layer",
        (f"moe_forward_b200{_END}",),
        "host-sync",
        ("exposed-communication", "memory-bound-ops", "launch-bound"),
    ),
    Recording(
        "ResNet-50 on V100, no workers",
        (f"resnet50_workers0_v100{_END}",),
        "dataloader-starvation",
        ("full-precision-matmul", "unfused-optimizer", "conv-layout", "launch-bound"),
    ),
    Recording(
        "ResNet-50 in fp32 on V100, four workers",
        (f"resnet50_workers4_v100{_END}",),
        "full-precision-matmul",
        ("unfused-optimizer", "conv-layout", "launch-bound", "unpinned-copy"),
    ),
    Recording(
        "ResNet with DDP on A100, 24 % busy",
        (f"resnet_ddp_a100{_END}",),
        "launch-bound",
        ("exposed-communication", "full-precision-matmul"),
    ),
    Recording(
        "all-to-all on four V100, a rank that waits",
        (f"sparse_a2a_rank0_v100{_END}",),
        "exposed-communication",
        ("straggler-rank", "allocator-retries", "host-sync"),
    ),
    Recording(
        "all-to-all on four V100, a rank that waits and the late one",
        (f"sparse_a2a_rank0_v100{_END}", f"sparse_a2a_rank2_v100{_END}"),
        "straggler-rank",
        ("exposed-communication", "allocator-retries", "host-sync"),
    ),
)


def recordings(folder: Path = FOLDER) -> tuple[Recording, ...]:
    """Those whose files are there."""
    return tuple(recording for recording in RECORDINGS if all((folder / file).exists() for file in recording.files))
