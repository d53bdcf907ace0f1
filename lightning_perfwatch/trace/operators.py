"""Operators of a trace: self time, totals by name, calls per step.

Knows columns and threads, no file and no device.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.trace.columns import Bools, Ints, Spans
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.trace import Trace, once
from lightning_perfwatch.trace.window import window_of


@dataclass(frozen=True)
class OpTotal:
    """One operation over the steps: `share` of the window, `clock` "device" or "host".

    `calls_per_step` is None without steps.
    """

    name: str
    self_s: float
    share: float
    calls_per_step: float | None
    clock: str


def top_ops(trace: Trace, n: int = 10, clock: Literal["host", "device"] | None = None) -> list[OpTotal]:
    """The operations with the most self time inside the complete steps (in all of a trace without steps).

    On the clock "device" they are kernels ranked by their time, on "host" operators ranked by self time; without
    a choice the device's where the trace has kernels. Kernels count where they were launched in a step; those
    that overlap on several streams are summed.
    """
    clock = clock or ("device" if len(trace.kernels) else "host")
    if clock == "device":
        kernels = trace.kernels.take(kernels_in_steps(trace))
        return _ranked(trace, trace.names, kernels.name, kernels.dur_us, n, clock)
    inside = _in_steps(trace, trace.ops.start_us)
    return _ranked(trace, trace.names, trace.ops.name[inside], trace.ops.self_us[inside], n, clock)


def top_launchers(trace: Trace, n: int = 10, by: Literal["operator", "module"] = "operator") -> list[OpTotal]:
    """The operators, or the modules by their path, whose device work in the steps takes longest.

    Kernels, copies and fills are given to the innermost operator or module that launched them, and summed also
    where streams overlap; `calls_per_step` counts them. Work whose launcher is not known is left out: that
    launched before the recording, and by module all of the backward pass and of a trace without Python frames.
    """
    work = trace.device_work
    work = work.take(_in_steps(trace, trace.launched_us(work)))
    ops = trace.launching_ops(work)
    work, ops = work.take(ops >= 0), ops[ops >= 0]
    if by == "operator":
        return _ranked(trace, trace.names, trace.ops.name[ops], work.dur_us, n, "device")
    modules = trace.modules_of(trace.ops.take(ops))
    known = modules >= 0
    paths = trace.modules.path[modules[known]]
    return _ranked(trace, trace.modules.paths, paths, work.dur_us[known], n, "device")


def _ranked(
    trace: Trace, names: tuple[str, ...], ids: npt.NDArray[Any], us: Floats, n: int, clock: str
) -> list[OpTotal]:
    """The `n` names with the largest sums."""
    window_s = window_of(trace).dur_s
    sums = np.bincount(ids, us, len(names))
    calls = np.bincount(ids, minlength=len(names))
    return [
        OpTotal(
            name=names[row],
            self_s=float(sums[row]) / 1e6,
            share=float(sums[row]) / 1e6 / window_s if window_s > 0 else 0.0,
            calls_per_step=trace.per_step(float(calls[row])),
            clock=clock,
        )
        for row in np.argsort(-sums, kind="stable")[:n]
        if calls[row]
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


@once
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
