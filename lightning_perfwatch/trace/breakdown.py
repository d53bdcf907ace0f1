"""Where the window's time goes: on the host, and on each device with the causes of its idle time.

Reads a `Trace`; knows no rule and no threshold. What was not recorded is None, never 0.
"""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools
from lightning_perfwatch.trace.device_times import communication_kernels, device_times
from lightning_perfwatch.trace.idle import IdleCauses, idle_causes
from lightning_perfwatch.trace.intervals import Floats, clip, total
from lightning_perfwatch.trace.operators import kernels_in_steps
from lightning_perfwatch.trace.trace import Trace
from lightning_perfwatch.trace.window import Window, window_of


@dataclass(frozen=True)
class DeviceBreakdown:
    """One device in the window. Shares are of the window's length.

    Busy is the union of kernels, copies and fills over all streams. Idle is the rest; its five parts add up:
    `data_idle_share` under the data loader, `sync_idle_share` exposed by host synchronisation (what would go
    if the host never waited), `launch_idle_share` and `stall_idle_share` other time in which the next launch came
    too late (the host was launching, or was busy with something that the profiler did not see), and
    `other_idle_share` (work was queued, or nothing is known about its launch). The parts are None where the
    trace has no host calls.
    """

    index: int
    name: str | None
    busy_share: float
    idle_share: float
    kernels_per_step: float | None
    kernel_median_us: float | None
    copy_share: float
    pageable_copy_share: float
    communication_share: float
    exposed_communication_share: float
    data_idle_share: float | None
    sync_idle_share: float | None
    launch_idle_share: float | None
    other_idle_share: float | None
    stall_idle_share: float | None = None


@dataclass(frozen=True)
class Breakdown:
    """The window (see `window.window_of`), its steps, and how host and devices spend it."""

    window_s: float
    num_steps: int
    step_s: float | None
    host_op_share: float | None
    data_wait_share: float | None
    devices: tuple[DeviceBreakdown, ...]


def breakdown(trace: Trace) -> Breakdown:
    """Where the time of the window goes."""
    window = window_of(trace)
    indices = np.unique(trace.device_work.device)
    counted = kernels_in_steps(trace)
    return Breakdown(
        window_s=window.dur_s,
        num_steps=len(trace.steps),
        step_s=float(np.median(trace.steps.dur_us)) / 1e6 if len(trace.steps) else None,
        host_op_share=_share(trace.ops_covered, window) if len(trace.ops) else None,
        data_wait_share=_share(trace.dataloader.intervals, window) if len(trace.dataloader) else None,
        devices=tuple(_device(trace, int(index), window, counted) for index in indices if window.dur_us > 0),
    )


def _share(intervals: Floats, window: Window) -> float:
    if window.dur_us <= 0:
        return 0.0
    return total(clip(intervals, window.start_us, window.end_us)) / window.dur_us


def _device(trace: Trace, index: int, window: Window, counted: Bools) -> DeviceBreakdown:
    times = device_times(trace, index)
    mine = trace.kernels.device == index
    kernels = trace.kernels.take(mine)
    copies = trace.copies.take((trace.copies.device == index) & trace.copies.pageable)
    overlapping = (kernels.start_us < window.end_us) & (kernels.end_us > window.start_us)
    sizes_us = kernels.dur_us[overlapping]
    busy = clip(times.busy, window.start_us, window.end_us)
    causes = idle_causes(trace, index, window)
    return DeviceBreakdown(
        index=index,
        name=trace.device_name(index),
        busy_share=total(busy) / window.dur_us,
        idle_share=1.0 - total(busy) / window.dur_us,
        kernels_per_step=_per_step(trace, int(np.sum(mine & counted))),
        kernel_median_us=float(np.median(sizes_us)) if len(sizes_us) else None,
        copy_share=_share(times.copies, window),
        pageable_copy_share=_share(copies.intervals, window),
        communication_share=_share(times.communication, window),
        exposed_communication_share=_share(times.exposed, window),
        data_idle_share=_part(causes, "data_us", window),
        sync_idle_share=_part(causes, "sync_us", window),
        launch_idle_share=_part(causes, "launch_us", window),
        other_idle_share=_part(causes, "other_us", window),
        stall_idle_share=_part(causes, "stall_us", window),
    )


def _per_step(trace: Trace, num_kernels: int) -> float | None:
    """None without steps, and where no kernel was recorded: a device that only copies has no launch rate."""
    if len(trace.steps) == 0 or len(trace.kernels) == 0:
        return None
    return num_kernels / len(trace.steps)


def _part(causes: IdleCauses | None, name: str, window: Window) -> float | None:
    return float(getattr(causes, name).sum()) / window.dur_us if causes is not None else None


def longest_communication(trace: Trace) -> str | None:
    """Name of the communication kernel that takes most time in all; None where there is none."""
    kernels = trace.kernels.take(communication_kernels(trace))
    if len(kernels) == 0:
        return None
    return trace.names[int(np.argmax(np.bincount(kernels.name, kernels.dur_us)))]
