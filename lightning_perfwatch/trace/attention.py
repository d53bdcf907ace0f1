"""Attention in a trace: which operators belong to it, forward and backward, and what they cost.

Reads the operators' costs; knows no rule and no threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.op_costs import OpCosts

_MATH = "aten::_scaled_dot_product_attention_math"
_PRODUCTS = frozenset(("aten::bmm", "aten::baddbmm", "aten::baddbmm_"))
_SOFTMAX = frozenset(("aten::_softmax", "aten::_safe_softmax"))
_MOST_CALLS_BETWEEN = 14
"""Calls between a matrix product and the softmax: scale, mask, bias, type, dropout and the views between them."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention that is computed step by step: the forward operators and the costs of all.

    `math` are the operators of torch's own slow path, `by_hand` those from the first to the second batched matrix
    product around a softmax. `math_us` and `by_hand_us` are what each operator, also of the backward pass, costs for
    them.
    """

    math: Bools
    by_hand: Bools
    math_us: Floats
    by_hand_us: Floats

    @property
    def forward(self) -> Bools:
        """Mask of all forward operators of it."""
        return self.math | self.by_hand


def attention(costs: OpCosts) -> Attention:
    """The attention that no fused kernel computes; empty masks where there is none."""
    math = costs.inside(costs.named(lambda name: name == _MATH)) & costs.in_forward
    by_hand = costs.inside(_by_hand(costs, math))
    return Attention(math, by_hand, _us(costs, math), _us(costs, by_hand))


def _us(costs: OpCosts, forward: Bools) -> Floats:
    return np.where(forward, costs.us, 0.0) + costs.backward_us(forward)


def _by_hand(costs: OpCosts, math: Bools) -> Bools:
    found = np.zeros(len(math), np.bool_)
    calls = costs.calls[~math[costs.calls]]
    is_fused = costs.inside(costs.named(lambda name: name.startswith("aten::") and "dot_product" in name))
    calls = calls[~is_fused[calls]]
    product = _hold(costs, costs.named(_PRODUCTS.__contains__))[calls]
    softmax = _hold(costs, costs.named(_SOFTMAX.__contains__))[calls]
    thread = costs.trace.ops.tid[calls]
    products = np.flatnonzero(product)
    for at in np.flatnonzero(softmax):
        after = int(np.searchsorted(products, at))
        if after in (0, len(products)):
            continue
        first, last = products[after - 1], products[after]
        if at - first <= _MOST_CALLS_BETWEEN and last - at <= _MOST_CALLS_BETWEEN and thread[first] == thread[last]:
            found[calls[first : last + 1]] = True
    return found


def _hold(costs: OpCosts, inner: Bools) -> Bools:
    """Mask of these operators and of all that they run in."""
    outer = inner.copy()
    at = costs.parent[inner]
    while len(at := np.unique(at[at >= 0])):
        outer[at] = True
        at = costs.parent[at]
    return outer
