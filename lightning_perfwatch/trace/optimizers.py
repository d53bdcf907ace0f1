"""The optimizers' own part of a trace: how each works, what it takes, and what is done to the gradients.

Reads the operators' costs; knows no rule and no threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lightning_perfwatch.trace.intervals import pairs, total, union
from lightning_perfwatch.trace.op_costs import OpCosts


@dataclass(frozen=True)
class OptimizerPart:
    """One class of optimizer in the steps: its `share` of the window, on the device from first to last kernel.

    `way` is how it works: "fused", "foreach" or, tensor by tensor, "loop"; None where it called no operator.
    `calls_per_step` is None without steps.
    """

    name: str
    way: Literal["fused", "foreach", "loop"] | None
    share: float
    calls_per_step: float | None
    ops_per_call: float


@dataclass(frozen=True)
class ZeroFill:
    """Gradients that are filled with zeros: `share` of the window with the additions to them, and how many fills
    per step (None without steps).

    Gradients that are set to None are not added to but taken as they come.
    """

    fill_share: float
    add_share: float
    fills_per_step: float | None

    @property
    def share(self) -> float:
        """What both take of the window (0..1)."""
        return min(1.0, self.fill_share + self.add_share)


def optimizer_parts(costs: OpCosts) -> list[OptimizerPart]:
    """Every class of optimizer that made a step in the trace, by name."""
    trace, spans = costs.trace, costs.optimizer
    if len(trace.steps):
        # One thread may be in the optimizer's step when the step of the profiler ends only through a rounding.
        spans = spans.take(trace.steps.index_of(spans.start_us) >= 0)
    found = []
    for name in sorted({trace.names[row] for row in spans.name.tolist()}):
        mine = spans.take(trace.matching(spans, lambda other, name=name: other == name))  # type: ignore[misc]
        inside = costs.within(mine)
        intervals = mine.intervals
        if costs.clock == "device":
            work = trace.device_work
            launched = trace.launched_us(work)
            at = np.searchsorted(np.sort(mine.start_us), launched, side="right") - 1
            order = np.argsort(mine.start_us)
            belongs = (at >= 0) & (launched < mine.end_us[order][np.maximum(at, 0)])
            first = np.full(len(mine), np.inf)
            last = np.full(len(mine), -np.inf)
            np.minimum.at(first, at[belongs], work.start_us[belongs])
            np.maximum.at(last, at[belongs], work.end_us[belongs])
            intervals = pairs(first[last > first], last[last > first])
        called = {trace.names[row] for row in np.unique(trace.ops.name[inside]).tolist()}
        outermost = inside & np.isin(costs.parent, np.append(np.flatnonzero(~inside), -1))
        found.append(
            OptimizerPart(
                name=name.removeprefix("Optimizer.step#").removesuffix(".step"),
                way=_way(called),
                share=costs.share_of_us(total(union(intervals))),
                calls_per_step=trace.per_step(len(mine)),
                ops_per_call=float(outermost.sum()) / len(mine),
            )
        )
    return found


def _way(called: set[str]) -> Literal["fused", "foreach", "loop"] | None:
    names = {name for name in called if name.startswith("aten::")}
    if any(name.startswith("aten::_fused_") for name in names):
        return "fused"
    if any(name.startswith("aten::_foreach_") for name in names):
        return "foreach"
    return "loop" if names else None


def zero_fill(costs: OpCosts) -> ZeroFill | None:
    """What filling gradients with zeros takes; None where `zero_grad` fills none."""
    trace = costs.trace
    zeroing = trace.annotations.take(trace.named(trace.annotations, "Optimizer.zero_grad#"))
    fills = costs.within(zeroing) & costs.named(("aten::zero_", "aten::_foreach_zero_").__contains__)
    if len(trace.steps):
        fills &= trace.steps.index_of(trace.ops.start_us) >= 0
    if not fills.any():
        return None
    nodes = costs.named(lambda name: name == "torch::autograd::AccumulateGrad")
    adds = costs.inside(nodes) & costs.named(("aten::add_", "aten::add").__contains__)
    num_steps = max(1, len(trace.steps))
    # Under accumulation most additions are wanted: only the first after each filling is not.
    spared = min(1.0, len(zeroing) / num_steps)
    return ZeroFill(
        fill_share=costs.share(costs.inside(fills)),
        add_share=spared * costs.share(costs.inside(adds)),
        fills_per_step=trace.per_step(int(fills.sum())),
    )
