"""When the optimizer itself is at work. Knows how torch labels it; no rule and no device."""

import numpy as np

from lightning_perfwatch.trace.columns import BACKWARD, Bools, Spans
from lightning_perfwatch.trace.intervals import Floats, covered_before, union
from lightning_perfwatch.trace.trace import Trace


def optimizer_spans(trace: Trace) -> Spans:
    """The optimizers' own parts of `Optimizer.step#…`: behind the last backward pass in it.

    A step may hold a closure with the forward and the backward pass in it; Lightning's always does.
    """
    steps = trace.annotations.take(trace.named(trace.annotations, "Optimizer.step#"))
    nodes = trace.ops.take(trace.named(trace.ops, BACKWARD))
    order = np.argsort(nodes.start_us, kind="stable")
    reached = np.maximum.accumulate(np.append(-np.inf, nodes.end_us[order]))
    begin = np.maximum(steps.start_us, reached[np.searchsorted(nodes.start_us[order], steps.end_us)])
    begin = np.minimum(begin, steps.end_us)
    return Spans(steps.name, steps.tid, begin, steps.end_us - begin)


def optimizer_intervals(trace: Trace) -> Floats:
    """The optimizer's own time, of shape (n, 2) in microseconds: its updates, and its zeroing of gradients."""
    zeroing = trace.annotations.take(trace.named(trace.annotations, "Optimizer.zero_grad#"))
    return union(np.concatenate((optimizer_spans(trace).intervals, zeroing.intervals)))


def inside(intervals: Floats, spans: Spans) -> Bools:
    """Mask of the events that begin inside the intervals, on whatever thread."""
    return np.asarray(
        covered_before(intervals, spans.start_us + _A_MOMENT_US) > covered_before(intervals, spans.start_us), np.bool_
    )


_A_MOMENT_US = 1e-3
