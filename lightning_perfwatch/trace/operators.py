"""Operators of a trace: self time, totals by name, calls per step.

Knows columns and threads, no file and no device.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints, Spans
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.trace import Trace
from lightning_perfwatch.trace.window import window_of


@dataclass(frozen=True)
class OpTotal:
    """One operation over the steps: `share` of the window, `clock` "device" (kernels) or "host" (operators).

    Without steps `calls_per_step` counts the calls in the whole trace.
    """

    name: str
    self_s: float
    share: float
    calls_per_step: float
    clock: str


def top_ops(trace: Trace, n: int = 10) -> list[OpTotal]:
    """The operations with the most self time inside the complete steps (in all of a trace without steps).

    With kernels in the trace they are ranked by kernel time on the device, else by self time on the host.
    Kernels count where they were launched in a step; those that overlap on several streams are summed.
    """
    window = window_of(trace)
    on_device = len(trace.kernels) > 0
    if on_device:
        spans: Spans = trace.kernels.take(kernels_in_steps(trace))
        self_us = spans.dur_us
    else:
        inside = _in_steps(trace, trace.ops.start_us)
        spans, self_us = trace.ops.take(inside), trace.ops.self_us[inside]
    sums = np.bincount(spans.name, self_us, len(trace.names))
    calls = np.bincount(spans.name, minlength=len(trace.names))
    ranked = [row for row in np.argsort(-sums, kind="stable")[:n] if calls[row]]
    per_step = max(len(trace.steps), 1)
    return [
        OpTotal(
            name=trace.names[row],
            self_s=float(sums[row]) / 1e6,
            share=float(sums[row]) / 1e6 / window.dur_s if window.dur_s > 0 else 0.0,
            calls_per_step=float(calls[row]) / per_step,
            clock="device" if on_device else "host",
        )
        for row in ranked
    ]


def calls_per_step(trace: Trace, names: Collection[str]) -> Ints:
    """Number of host events (operators, annotations, runtime calls) so named in each complete step."""
    wanted = np.fromiter((name in names for name in trace.names), np.bool_, len(trace.names))
    counts = np.zeros(len(trace.steps), np.int64)
    groups: tuple[Spans, ...] = (trace.ops, trace.annotations, trace.runtime)
    for spans in groups:
        step = trace.steps.index_of(spans.start_us[wanted[spans.name]])
        counts += np.bincount(step[step >= 0], minlength=len(counts))
    return counts


def kernels_in_steps(trace: Trace) -> Bools:
    """Mask of the kernels whose launch lies in a complete step; all where there is no step.

    A kernel without a launch record was launched before the recording began. Only where no kernel has one (a
    trace of the device alone) do the kernels that start in the window count instead.
    """
    kernels = trace.kernels
    if len(trace.steps) == 0:
        return np.ones(len(kernels), np.bool_)
    launched = trace.launched_us(kernels)
    if np.isnan(launched).all():
        window = window_of(trace)
        return (kernels.start_us >= window.start_us) & (kernels.start_us < window.end_us)
    return _in_steps(trace, launched)


def _in_steps(trace: Trace, times_us: Floats) -> Bools:
    if len(trace.steps) == 0:
        return np.ones(len(times_us), np.bool_)
    return np.asarray(trace.steps.index_of(times_us) >= 0, dtype=np.bool_)
