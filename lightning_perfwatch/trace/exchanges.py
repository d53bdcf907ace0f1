"""In which steps gradients are exchanged while the backward pass runs. Knows no rule and no threshold."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Spans
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.trace import Trace

_BACKWARD = "autograd::engine::evaluate_function"
_EXCHANGES = ("c10d::allreduce_", "nccl:all_reduce", "gloo:all_reduce")
_OPTIMIZER = "Optimizer.step#"


@dataclass(frozen=True)
class Exchanges:
    """Of the complete steps, those in which an optimizer steps, and those in which gradients are exchanged.

    Gradients of one process are all-reduced inside nodes of its backward pass; what a user reduces elsewhere (a
    logged loss) is none of them.
    """

    num_steps: int
    num_optimizer_steps: int
    num_exchanging: int
    num_exchanging_alone: int


def exchanges_in_steps(trace: Trace) -> Exchanges:
    """`num_exchanging_alone` are the steps that exchange gradients without a step of the optimizer."""
    starts = [_in_backward(trace, spans) for spans in (trace.ops, trace.annotations)]
    exchanging = _steps_at(trace, np.concatenate(starts))
    optimizers = trace.annotations.take(trace.named(trace.annotations, _OPTIMIZER))
    stepping = _steps_at(trace, optimizers.start_us)
    return Exchanges(len(trace.steps), len(stepping), len(exchanging), len(exchanging - stepping))


def _in_backward(trace: Trace, spans: Spans) -> Floats:
    spans = spans.take(trace.named(spans, _EXCHANGES))
    nodes = trace.ops.take(trace.named(trace.ops, _BACKWARD))
    return spans.start_us[enclosing(nodes, spans.tid, spans.start_us) >= 0]


def _steps_at(trace: Trace, times_us: Floats) -> set[int]:
    steps = trace.steps.index_of(times_us)
    return set(steps[steps >= 0].tolist())
