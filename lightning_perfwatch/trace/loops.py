"""Python loops over operators: the same few operators again and again on the host. Knows no rule."""

import re
from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints, Operators
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.optimizer_time import inside, optimizer_intervals
from lightning_perfwatch.trace.places import CodePlace, code_place
from lightning_perfwatch.trace.trace import Trace

LONGEST_PATTERN = 64
"""Operators in one round of a loop at most."""
# What an operator costs the host beside its arithmetic: its call from Python, its dispatch, its output, its node of
# the backward pass. Measured on CPUs with the profiler on: 5 to 15 us from Python, with backward 10 to 25. It is paid
# again by every operator that another one calls, such as the five within a matmul.
_OVERHEAD_US = 20.0
# The backward pass of cutting one piece out of a tensor makes a tensor of zeros as large as the whole, for each piece.
_CUT_OUT = re.compile(r"(?:Select|Slice|Narrow|Index|Gather|AsStrided|Unfold)\w*Backward")
# Between two operators of a loop lies some Python; what lies there for longer is something else.
_LONGEST_GAP_US = 500.0
_MOST_ROWS = 200_000


@dataclass(frozen=True)
class Loops:
    """The loops in the complete steps, forward and backward together.

    `overhead_share` is the part of the steps that goes into calling the loops' operators, into the Python between
    them, and into putting gradients of single pieces together; `time_share` is all of the loops' time. `num_rounds`
    and `pattern` are those of the most expensive loop, per step.
    """

    overhead_share: float
    overhead_us_per_step: float
    time_share: float
    num_operators_per_step: float
    num_rounds: float
    pattern: tuple[str, ...]
    median_op_us: float
    place: CodePlace | None


def host_loops(trace: Trace, min_rounds: int = 32) -> Loops | None:
    """The loops of at least `min_rounds` equal rounds on the steps' thread; None without steps or without a loop.

    Only outermost operators are compared, so a round is what the Python code (or the backward pass) calls. Operators
    of the optimizer and of the data loader are left out. A model of equal layers is a loop of few long rounds: it
    becomes one here only from `min_rounds` layers on.
    """
    if len(trace.steps) == 0 or len(trace.ops) == 0:
        return None
    ops = _outermost(trace)
    if len(ops) < min_rounds:
        return None
    names = ops.name.astype(np.int64)
    step = trace.steps.index_of(ops.start_us)
    looped, loop, period = _repeats(names, step, min_rounds)
    steps_us = float(trace.steps.dur_us.sum())
    if not looped.any() or steps_us <= 0:
        return None
    gap_us = np.diff(ops.start_us, append=ops.end_us[-1]) - ops.dur_us
    follows = looped & np.append(loop[1:] == loop[:-1], False) & (gap_us < _LONGEST_GAP_US)
    gap_us = np.where(follows, np.maximum(gap_us, 0.0), 0.0)
    cut_out = trace.matching(ops, lambda name: _CUT_OUT.search(name) is not None)
    called_us = np.where(cut_out, ops.dur_us, _called_us(trace, ops))
    overhead_us = np.where(looped, called_us, 0.0) + gap_us
    rows = loop == int(np.argmax(np.bincount(loop[looped], overhead_us[looped])))
    first = int(np.flatnonzero(rows)[0])
    size = int(period[first])
    return Loops(
        overhead_share=min(1.0, float(overhead_us.sum()) / steps_us),
        overhead_us_per_step=float(overhead_us.sum()) / len(trace.steps),
        time_share=min(1.0, float((ops.dur_us[looped].sum() + gap_us.sum()) / steps_us)),
        num_operators_per_step=float(looped.sum()) / len(trace.steps),
        num_rounds=float(rows.sum()) / size,
        pattern=tuple(trace.names[name] for name in names[first : first + size].tolist()),
        median_op_us=float(np.median(ops.dur_us[looped])),
        place=code_place(trace, ops.take(rows)),
    )


def _outermost(trace: Trace) -> Operators:
    """The operators of the steps' thread that lie in no other, without the optimizer's and the data loader's."""
    ops = trace.ops.take(np.isin(trace.ops.tid, trace.steps.tid) & (trace.steps.index_of(trace.ops.start_us) >= 0))
    ops = ops.take(~inside(np.concatenate((optimizer_intervals(trace), trace.dataloader.intervals)), ops))
    ended = np.maximum.accumulate(np.append(-np.inf, ops.end_us))[:-1]
    return ops.take(np.flatnonzero(ops.start_us >= ended)[:_MOST_ROWS])


def _called_us(trace: Trace, outermost: Operators) -> Floats:
    """For each of these operators what calling it, and those that it calls, takes at most."""
    own_us = np.minimum(trace.ops.self_us, _OVERHEAD_US)
    row = enclosing(outermost, trace.ops.tid, trace.ops.start_us)
    inside = row >= 0
    return np.asarray(np.bincount(row[inside], own_us[inside], len(outermost)), np.float64)


def _repeats(names: Ints, step: Ints, min_rounds: int) -> tuple[Bools, Ints, Ints]:
    """Which rows lie in a loop, the number of the loop, and how many rows a round of it has.

    A loop of `p` operators is a stretch in which each row equals the one `p` rows later. The shortest period that
    explains a row is its own.
    """
    number = len(names)
    looped = np.zeros(number, np.bool_)
    loop = np.full(number, -1, np.int64)
    period = np.zeros(number, np.int64)
    found = 0
    for size in range(1, min(LONGEST_PATTERN, number // min_rounds) + 1):
        same = (names[size:] == names[:-size]) & (step[size:] == step[:-size])
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False]))))
        for begin, end in edges.reshape(-1, 2).tolist():
            stretch = slice(begin, end + size)
            if end - begin + size < min_rounds * size or looped[stretch].mean() > 0.5:
                continue
            free = ~looped[stretch]
            looped[stretch] = True
            loop[stretch][free] = found
            period[stretch][free] = size
            found += 1
    return looped, loop, period
