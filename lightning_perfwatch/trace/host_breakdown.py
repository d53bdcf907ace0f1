"""Where each step's time goes on the host. Reads a `Trace`; knows no rule and no threshold."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints, Spans
from lightning_perfwatch.trace.intervals import Floats, covered_before, subtract, union
from lightning_perfwatch.trace.trace import Trace


@dataclass(frozen=True, eq=False)
class HostBreakdown:
    """The host in every complete step: columns with a row per step, times in microseconds.

    `data_wait_us` + `operators_us` + `calls_us` + `python_us` is the step, all on the step's own thread: waiting for
    the data loader (with what the loader runs there), operators, calls into a device's runtime outside of any
    operator (a synchronisation is one), and the rest, which is Python between the operators and whatever the
    profiler does not see. `other_threads_us` is apart: when operators ran on any other thread, such as the
    backward pass of a device. None where the trace has no event of the kind at all.
    """

    numbers: Ints
    start_us: Floats
    end_us: Floats
    data_wait_us: Floats | None
    operators_us: Floats | None
    calls_us: Floats | None
    python_us: Floats
    other_threads_us: Floats | None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def dur_us(self) -> Floats:
        """How long the host was in each step."""
        return self.end_us - self.start_us


def host_breakdown(trace: Trace) -> HostBreakdown:
    """The host's steps; without rows for a trace without a step."""
    steps = trace.steps

    def inside(intervals: Floats) -> Floats:
        rows = union(intervals)
        return covered_before(rows, steps.end_us) - covered_before(rows, steps.start_us)

    main = _on_main_thread(trace, trace.ops)
    waits = trace.dataloader.take(_on_main_thread(trace, trace.dataloader)).intervals
    operators = trace.ops.take(main).intervals
    calls = trace.runtime.take(_on_main_thread(trace, trace.runtime)).intervals
    wait_us = inside(waits)
    operators_us = inside(subtract(operators, waits))
    calls_us = inside(subtract(calls, np.concatenate((operators, waits))))
    return HostBreakdown(
        numbers=steps.numbers,
        start_us=steps.start_us,
        end_us=steps.end_us,
        data_wait_us=wait_us if len(trace.dataloader) else None,
        operators_us=operators_us if len(trace.ops) else None,
        calls_us=calls_us if len(trace.runtime) else None,
        python_us=np.maximum(steps.dur_us - wait_us - operators_us - calls_us, 0.0),
        other_threads_us=inside(trace.ops.take(~main).intervals) if len(trace.ops) else None,
    )


def _on_main_thread(trace: Trace, spans: Spans) -> Bools:
    """Mask of the rows on the thread that the steps ran on."""
    return np.isin(spans.tid, trace.steps.tid)
