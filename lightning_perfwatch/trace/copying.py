"""What copies cost a device: the time in which it does nothing else. Knows no rule and no threshold."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.device_times import device_times
from lightning_perfwatch.trace.intervals import clip, subtract, total
from lightning_perfwatch.trace.trace import Trace, once
from lightning_perfwatch.trace.window import window_of


@dataclass(frozen=True)
class CopyCost:
    """The copies of one direction and one kind of host memory on one device, in the window.

    `exposed_share` is the part of the window in which such a copy runs and no kernel does; `hideable_share` that part
    of it in which nothing else runs and for which the device has other work in the window (kernels, or copies of the
    other direction, which have an engine of their own) that could run meanwhile and does not yet. `direction` is HtoD,
    DtoH, DtoD, PtoP or empty; `per_step` is None without steps.
    """

    device: int
    direction: str
    pageable: bool
    num_copies: int
    per_step: float | None
    bytes_per_copy: float
    exposed_share: float
    hideable_share: float


@once
def copy_costs(trace: Trace) -> tuple[CopyCost, ...]:
    """The most exposed first; none without a copy in the window."""
    window = window_of(trace)
    if window.dur_us <= 0:
        return ()
    costs = []
    copies = trace.copies
    groups = {*zip(copies.device.tolist(), copies.direction.tolist(), copies.pageable.tolist(), strict=True)}
    for device, direction, pageable in groups:
        here = copies.device == device
        mine = here & (copies.direction == direction) & (copies.pageable == pageable)
        mine &= (copies.start_us >= window.start_us) & (copies.start_us < window.end_us)
        group = copies.take(mine)
        if len(group) == 0:
            continue
        kernels = clip(device_times(trace, device).kernels, window.start_us, window.end_us)
        opposite = copies.take(here & (copies.direction != direction)).intervals
        exposed = subtract(clip(group.intervals, window.start_us, window.end_us), kernels)
        other = clip(np.concatenate((kernels, opposite)), window.start_us, window.end_us)
        alone_us, free_us = total(subtract(exposed, other)), total(subtract(other, group.intervals))
        sizes = group.num_bytes[group.num_bytes >= 0]
        costs.append(
            CopyCost(
                device=device,
                direction=direction,
                pageable=pageable,
                num_copies=len(group),
                per_step=trace.per_step(len(group)),
                bytes_per_copy=float(sizes.mean()) if len(sizes) else 0.0,
                exposed_share=total(exposed) / window.dur_us,
                hideable_share=min(alone_us, free_us) / window.dur_us,
            )
        )
    return tuple(sorted(costs, key=lambda cost: (-cost.exposed_share, cost.device, cost.direction)))
