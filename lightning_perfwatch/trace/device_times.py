"""When a device does what, as unions of intervals, worked out once. Knows no step, no idle time and no threshold."""

import re
from dataclasses import dataclass

from lightning_perfwatch.trace.columns import Bools
from lightning_perfwatch.trace.intervals import Floats, subtract, union
from lightning_perfwatch.trace.trace import Trace, once

# NCCL and RCCL, MSCCL, NVSHMEM and the expert-parallel libraries on it, oneCCL, and the custom all-reduces of
# inference engines and of torch's symmetric memory. A block's or warp's "AllReduce" stays on its device.
_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|oneccl|nvshmem|deep_ep|symm_mem|multimem|cross_device_reduce"
    r"|(?<!block)(?<!warp)(?<!block_)(?<!warp_)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class DeviceTimes:
    """One device over all of its streams, as unions.

    `busy` is any work; `kernels` is `compute` and `communication` together; `exposed` is communication without compute.
    """

    busy: Floats
    kernels: Floats
    compute: Floats
    communication: Floats
    exposed: Floats
    copies: Floats


@once
def device_times(trace: Trace, device: int) -> DeviceTimes:
    """The times of the device with this index."""
    mine = trace.kernels.device == device
    kernels, communicates = trace.kernels.take(mine), communication_kernels(trace)[mine]
    compute = union(kernels.take(~communicates).intervals)
    communication = union(kernels.take(communicates).intervals)
    return DeviceTimes(
        busy=union(trace.work_of(device).intervals),
        kernels=union(kernels.intervals) if len(communication) else compute,
        compute=compute,
        communication=communication,
        exposed=subtract(communication, compute),
        copies=union(trace.copies.take(trace.copies.device == device).intervals),
    )


@once
def communication_kernels(trace: Trace) -> Bools:
    """Mask of the kernels that exchange data with other devices."""
    return trace.matching(trace.kernels, lambda name: _COMMUNICATION.search(name) is not None)
