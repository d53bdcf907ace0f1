"""How often the host takes memory from the driver and gives it back while steps run. Knows no rule and no threshold."""

import re
from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.intervals import subtract, total, union
from lightning_perfwatch.trace.places import CodePlace, code_place
from lightning_perfwatch.trace.trace import Trace

# Those of an allocator with segments that grow map and unmap memory in place of allocating and freeing it.
_TAKES = re.compile(r"(?:cuda|hip)(?:Malloc|ExtMallocWithFlags)|cu(?:MemAlloc|MemCreate|MemMap)(?:_v\d+)?|hipMemMap")
_GIVES_BACK = re.compile(r"(?:cuda|hip)Free|cu(?:MemFree|MemRelease|MemUnmap)(?:_v\d+)?|hipMemUnmap")


@dataclass(frozen=True)
class Reserving:
    """The calls in the complete steps (in all of a trace without steps).

    `idle_share` of the steps' time the host is in such a call while no device has anything to do. `freeing_steps`
    are those of the `num_steps` steps in which memory is given back; 0 of 0 for a trace without steps.
    """

    num_taken: int
    num_given_back: int
    num_steps: int
    freeing_steps: int
    host_share: float
    idle_share: float
    place: CodePlace | None


def reserving_in_steps(trace: Trace) -> Reserving | None:
    """None where no step gives memory back to the driver: taking some is how every run begins."""
    takes = trace.matching(trace.runtime, lambda name: _TAKES.fullmatch(name) is not None)
    gives = trace.matching(trace.runtime, lambda name: _GIVES_BACK.fullmatch(name) is not None)
    step = trace.steps.index_of(trace.runtime.start_us)
    if len(trace.steps):
        takes, gives = takes & (step >= 0), gives & (step >= 0)
    length_us = float(trace.steps.dur_us.sum()) if len(trace.steps) else trace.end_us - trace.start_us
    if not gives.any() or length_us <= 0:
        return None
    spent = union(trace.runtime.take(takes | gives).intervals)
    idle = subtract(spent, union(trace.device_work.intervals))
    return Reserving(
        num_taken=int(takes.sum()),
        num_given_back=int(gives.sum()),
        num_steps=len(trace.steps),
        freeing_steps=len(np.unique(step[gives])) if len(trace.steps) else 0,
        host_share=min(1.0, total(spent) / length_us),
        idle_share=min(1.0, total(idle) / length_us),
        place=code_place(trace, trace.runtime.take(gives)),
    )
