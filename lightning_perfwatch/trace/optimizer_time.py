"""When the optimizer itself is at work. Knows how torch labels it; no rule and no device."""

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Spans
from lightning_perfwatch.trace.intervals import Floats, covered_before, pairs, union
from lightning_perfwatch.trace.trace import Trace

_BACKWARD = "autograd::engine::evaluate_function"


def optimizer_intervals(trace: Trace) -> Floats:
    """The optimizer's own time, of shape (n, 2) in microseconds: its updates, and its zeroing of gradients.

    A step may hold a closure with the forward and the backward pass in it (Lightning's always does): what lies in the
    step until its last operator of a backward pass is not the optimizer's.
    """
    steps = trace.annotations.take(trace.named(trace.annotations, "Optimizer.step#"))
    zeroing = trace.annotations.take(trace.named(trace.annotations, "Optimizer.zero_grad#"))
    ended = np.sort(trace.ops.take(trace.named(trace.ops, _BACKWARD)).end_us)
    at = np.searchsorted(ended, steps.end_us, side="right") - 1
    last = ended[np.maximum(at, 0)] if len(ended) else np.zeros(len(steps))
    begin = np.where((at >= 0) & (last > steps.start_us), last, steps.start_us)
    return union(np.concatenate((pairs(begin, steps.end_us), zeroing.intervals)))


def inside(intervals: Floats, spans: Spans) -> Bools:
    """Mask of the events that begin inside the intervals, on whatever thread."""
    return np.asarray(
        covered_before(intervals, spans.start_us + _A_MOMENT_US) > covered_before(intervals, spans.start_us), np.bool_
    )


_A_MOMENT_US = 1e-3
