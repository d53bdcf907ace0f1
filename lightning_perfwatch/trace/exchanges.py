"""In which steps gradients are exchanged, and how long the host waits for exchanges. Knows no rule, no threshold."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import BACKWARD, Spans
from lightning_perfwatch.trace.intervals import Floats, covered_before, pairs, union
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.trace import Trace

_EXCHANGES = ("c10d::allreduce_", "nccl:all_reduce", "gloo:all_reduce")
_OPTIMIZER = "Optimizer.step#"
_HOST_EXCHANGES = ("gloo:", "mpi:", "ucc:")
_SEARCH = ("torch.distributed.ddp.reducer::search_unused_parameters", "_DDPSink")
_NO_COMPUTATION = (BACKWARD, "c10d::")
_IN_EVERY_STEP = 0.25


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


@dataclass(frozen=True)
class HostExchange:
    """How the host exchanges data with other processes, at the lower quartile of the complete steps.

    What an exchange takes, it takes in every step; what it takes in some steps only is a process that was displaced
    from its CPU for a while, and for which the others waited. `share` is the part of a step (0..1) in which an exchange
    runs, `exposed_share` that in which the training waits for one: an exchange ends and no operator has begun since a
    time before, nor is the data loader waited for. `name` is that of the exchange that is waited for longest.
    """

    name: str
    share: float
    exposed_share: float


def exchange_on_host(trace: Trace) -> HostExchange | None:
    """What a backend on the host (gloo, MPI, UCC) exchanges on threads of its own; None if nothing, or no step."""
    exchanges = trace.annotations.take(trace.named(trace.annotations, _HOST_EXCHANGES))
    steps = trace.steps
    if len(exchanges) == 0 or len(steps) == 0:
        return None
    own_threads = np.setdiff1d(exchanges.tid, steps.tid)
    computing = ~np.isin(trace.ops.tid, own_threads) & ~trace.named(trace.ops, _NO_COMPUTATION)
    busy = union(np.concatenate((trace.ops.take(computing).intervals, trace.dataloader.intervals)))
    ends_us = exchanges.start_us + exchanges.dur_us
    last = np.searchsorted(busy[:, 0], ends_us) - 1
    busy_until_us = np.where(last >= 0, busy[last, 1], -np.inf) if len(busy) else np.full(len(ends_us), -np.inf)
    waits = pairs(np.clip(busy_until_us, exchanges.start_us, ends_us), ends_us)
    waited_us = np.bincount(exchanges.name, waits[:, 1] - waits[:, 0])

    def share(intervals: Floats) -> float:
        covered_us = covered_before(intervals, steps.end_us) - covered_before(intervals, steps.start_us)
        return float(np.quantile(covered_us / steps.dur_us, _IN_EVERY_STEP))

    return HostExchange(trace.names[int(np.argmax(waited_us))], share(exchanges.intervals), share(waits))


def search_on_host_share(trace: Trace) -> float | None:
    """The part of the complete steps (0..1) in which DDP searches for unused parameters on the host.

    With it counts the node that the search adds to each graph. None where the trace has no such operator or no step.
    """
    search = trace.ops.take(trace.named(trace.ops, _SEARCH)).intervals
    steps = trace.steps
    if len(search) == 0 or len(steps) == 0:
        return None
    inside_us = covered_before(search, steps.end_us) - covered_before(search, steps.start_us)
    return float(inside_us.sum() / steps.dur_us.sum())


def _in_backward(trace: Trace, spans: Spans) -> Floats:
    spans = spans.take(trace.named(spans, _EXCHANGES))
    nodes = trace.ops.take(trace.named(trace.ops, BACKWARD))
    return spans.start_us[enclosing(nodes, spans.tid, spans.start_us) >= 0]


def _steps_at(trace: Trace, times_us: Floats) -> set[int]:
    steps = trace.steps.index_of(times_us)
    return set(steps[steps >= 0].tolist())
