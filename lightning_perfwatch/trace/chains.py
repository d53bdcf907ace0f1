"""Chains of elementwise operators in the forward pass: each reads what the one before it wrote.

Reads the operators' costs; knows no rule and no threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints
from lightning_perfwatch.trace.op_costs import OpCosts

_ELEMENTWISE = frozenset(
    (
        "abs", "add", "addcdiv", "addcmul", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "cos", "div", "eq",
        "erf", "erfc", "exp", "expm1", "fill", "floor", "ge", "gt", "hardtanh", "le", "leaky_relu", "lerp", "log",
        "log1p", "logical_and", "logical_not", "lt", "masked_fill", "maximum", "minimum", "mul", "ne", "neg", "pow",
        "reciprocal", "relu", "round", "rsqrt", "rsub", "sigmoid", "sign", "sin", "softplus", "sqrt", "square", "sub",
        "tanh", "where",
    )
)  # fmt: skip
_REDUCTIONS = frozenset(("mean", "sum", "var", "var_mean", "std", "amax", "norm", "linalg_vector_norm"))
# Views and conversions: they end no chain and make none.
_TRANSPARENT = frozenset(
    (
        "to", "_to_copy", "view", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "expand", "expand_as",
        "slice", "select", "contiguous", "detach", "lift_fresh", "scalar_tensor", "view_as", "t", "flatten", "alias",
        "is_nonzero", "unflatten", "type_as",
    )
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Chain:
    """All chains of the same operators `names`, in their order: the rows of their calls in `Trace.ops`.

    `us` is what they cost in the forward pass, with what runs inside of them.
    """

    names: tuple[str, ...]
    num_calls: int
    calls: Ints
    us: float

    def rows(self, costs: OpCosts) -> Bools:
        """Mask of the calls and of all that runs inside of them."""
        mask = np.zeros(len(costs.us), np.bool_)
        mask[self.calls] = True
        return costs.inside(mask)


def chains(costs: OpCosts, least_ops: int, apart: Bools) -> list[Chain]:
    """The chains of at least `least_ops` operators that the forward pass calls, without those in `apart`."""
    found: dict[tuple[str, ...], list[Ints]] = {}
    for rows, names in _runs(costs, apart):
        if len(names) >= least_ops:
            found.setdefault(names, []).append(rows)
    inclusive = costs.inclusive(costs.us)
    result = []
    for names, calls in found.items():
        rows = np.concatenate(calls)
        result.append(Chain(names, len(calls), rows, float(inclusive[rows].sum())))
    return result


def _runs(costs: OpCosts, apart: Bools) -> Iterator[tuple[Ints, tuple[str, ...]]]:
    trace, calls = costs.trace, costs.calls
    short = [name.removeprefix("aten::").rstrip("_") if name.startswith("aten::") else "" for name in trace.names]
    is_link = np.array([name in _ELEMENTWISE or name in _REDUCTIONS for name in short], np.bool_)
    is_view = np.array([name in _TRANSPARENT for name in short], np.bool_)
    ids = trace.ops.name[calls]
    link = is_link[ids] & ~apart[calls]
    goes_on = link | (is_view[ids] & ~apart[calls])
    thread = trace.ops.tid[calls]
    same_thread = np.append(False, thread[1:] == thread[:-1])
    step = trace.steps.index_of(trace.ops.start_us[calls])
    same_step = np.append(False, step[1:] == step[:-1])
    joined = goes_on & np.append(False, goes_on[:-1]) & same_thread & same_step
    starts = np.flatnonzero(goes_on & ~joined)
    ends = np.append(np.flatnonzero(~joined), len(calls))
    ends = ends[np.searchsorted(ends, starts, side="right")]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        members = np.arange(start, end)
        links = members[link[members]]
        if len(links):
            inner = members[(members >= links[0]) & (members <= links[-1])]
            yield calls[inner], tuple(short[trace.ops.name[row]] for row in calls[links])
