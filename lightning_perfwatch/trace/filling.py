"""How much of a device its kernels fill, by the size of their grids. Knows no rule and no threshold."""

import numpy as np

from lightning_perfwatch.trace.device_times import communication_kernels
from lightning_perfwatch.trace.operators import kernels_in_steps
from lightning_perfwatch.trace.trace import Trace


def filled_share(trace: Trace, device: int) -> float | None:
    """Share (0..1) of the multiprocessors that have a block to run while a kernel of the steps runs.

    The mean over the kernels' time of `min(1, blocks per multiprocessor)`, as torch-tb-profiler estimates its
    "SM efficiency"; kernels that communicate are left out. An upper bound: a multiprocessor with one block is seldom
    full. None where the trace does not tell the sizes of grids.
    """
    wanted = kernels_in_steps(trace) & ~communication_kernels(trace) & (trace.kernels.device == device)
    kernels = trace.kernels.take(wanted & (trace.kernels.blocks_per_sm >= 0))  # False for NaN
    total_us = float(kernels.dur_us.sum())
    if total_us <= 0:
        return None
    return float(np.sum(kernels.dur_us * np.minimum(kernels.blocks_per_sm, 1.0))) / total_us
