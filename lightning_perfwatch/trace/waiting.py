"""Which operators and which code make the host wait for a device. Knows no rule and no idle time."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Ints
from lightning_perfwatch.trace.places import CodePlace, code_place
from lightning_perfwatch.trace.trace import Trace


@dataclass(frozen=True)
class Waits:
    """The host's waits for a device in the complete steps (in all of a trace without steps, which has none per step).

    Calls that the same operator makes are one wait. `host_share` of their time the host is held; `steps_share` of the
    steps hold at least one. `operator` is the innermost operator around most of them, None where they are made outside
    of any.
    """

    num_waits: int
    per_step: float | None
    steps_share: float
    host_share: float
    operator: str | None
    call: str
    place: CodePlace | None


def waits_in_steps(trace: Trace) -> Waits | None:
    """None where the host never waits."""
    syncs = trace.syncs
    step = trace.steps.index_of(syncs.start_us)
    if len(trace.steps):
        syncs, step = syncs.take(step >= 0), step[step >= 0]
    if len(syncs) == 0:
        return None
    rows = trace.ops_of(syncs)
    num_waits = _num_waits(rows)
    length_us = float(trace.steps.dur_us.sum()) if len(trace.steps) else trace.end_us - trace.start_us
    return Waits(
        num_waits=num_waits,
        per_step=trace.per_step(num_waits),
        steps_share=len(np.unique(step)) / len(trace.steps) if len(trace.steps) else 1.0,
        host_share=min(1.0, float(syncs.dur_us.sum()) / length_us) if length_us > 0 else 0.0,
        operator=_operator(trace, rows),
        call=Counter(trace.names[name] for name in syncs.name.tolist()).most_common(1)[0][0],
        place=code_place(trace, syncs),
    )


def _num_waits(rows: Ints) -> int:
    """The copy and the synchronisation of one operator are one wait."""
    return len(np.unique(rows[rows >= 0])) + int(np.sum(rows < 0))


def _operator(trace: Trace, rows: Ints) -> str | None:
    names = Counter(trace.names[name] for name in trace.ops.name[rows[rows >= 0]].tolist())
    return names.most_common(1)[0][0] if names else None
