"""Whether a cause of idle time is of every step or of a single odd one. Reads a `Trace`; knows no rule."""

from typing import Literal, NamedTuple

import numpy as np

from lightning_perfwatch.trace.intervals import Floats, covered_before
from lightning_perfwatch.trace.step_breakdown import step_breakdowns
from lightning_perfwatch.trace.trace import Trace

_FEWEST_STEPS = 3  # of two steps nobody can tell which is the odd one


class LoneStep(NamedTuple):
    """The one step, of `num_steps`, that holds most of a cause."""

    number: int
    num_steps: int


def lone_step(trace: Trace, part: Literal["data", "stall", "launch"], least_share: float) -> LoneStep | None:
    """The step with most of this part of the idle time, if the others together spend less than `least_share` on it.

    Of several devices the one that idles most for this cause counts; without a device, for "data", the host's waits.
    None where it is spread over more steps, with fewer than three steps, or where the part is not known.
    """
    found = [(getattr(device, f"{part}_idle_us"), device.dur_us) for device in step_breakdowns(trace)]
    known = [(part_us, dur_us) for part_us, dur_us in found if part_us is not None]
    if not found and part == "data":
        waits, steps = trace.dataloader.intervals, trace.steps
        known = [(covered_before(waits, steps.end_us) - covered_before(waits, steps.start_us), steps.dur_us)]
    if not known:
        return None
    row = _lone_row(*max(known, key=lambda pair: float(pair[0].sum())), least_share)
    return None if row is None else LoneStep(int(trace.steps.numbers[row]), len(trace.steps))


def _lone_row(part_us: Floats, dur_us: Floats, least_share: float) -> int | None:
    if len(part_us) < _FEWEST_STEPS:
        return None
    row = int(np.argmax(part_us))
    others_us = float(part_us.sum() - part_us[row])
    others_dur_us = float(dur_us.sum() - dur_us[row])
    is_lone = part_us[row] > others_us and others_us < least_share * others_dur_us
    return row if is_lone else None
