from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from lightning_perfwatch.trace import Attention, OpCosts, attention, op_costs, read_trace
from tests.trace.factories import op, step, trace
from tests.trace.recording import record

NODE = "autograd::engine::evaluate_function: "


def inputs() -> list[Tensor]:
    return [torch.randn(2, 2, 16, 8, requires_grad=True) for _ in range(3)]


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = (query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    mask = torch.ones(16, 16, dtype=torch.bool).triu(1)
    result: Tensor = torch.nn.functional.dropout(weights.masked_fill(mask, float("-inf")).softmax(-1), 0.1) @ value
    return result


def recorded(path: Path, compute: Callable[..., Tensor]) -> tuple[OpCosts, Attention]:
    record(path / "trace.json", inside=lambda: torch.autograd.backward(compute(*inputs()).sum()))
    costs = op_costs(read_trace(path / "trace.json"))
    return costs, attention(costs)


def test_the_fused_kernel_of_torch_is_not_slow_attention(tmp_path: Path) -> None:
    _, found = recorded(tmp_path, lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True))
    assert not found.forward.any()
    assert found.math_us.sum() == found.by_hand_us.sum() == 0.0


def test_the_math_path_of_torch_is_found_with_its_backward_pass(tmp_path: Path) -> None:
    def dropping(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value, dropout_p=0.1)

    costs, found = recorded(tmp_path, dropping)
    names = {costs.trace.names[row] for row in costs.trace.ops.name[found.math]}
    assert {"aten::bmm", "aten::_softmax", "aten::dropout"} <= names
    assert not found.by_hand.any()
    assert "aten::_softmax_backward_data" in {costs.trace.names[row] for row in costs.trace.ops.name[found.math_us > 0]}


def test_the_math_backend_is_the_same_path(tmp_path: Path) -> None:
    with sdpa_kernel(SDPBackend.MATH):
        _, found = recorded(tmp_path, scaled_dot_product_attention)
    assert found.math.any()


def test_attention_by_hand_reaches_from_the_first_to_the_second_product(tmp_path: Path) -> None:
    costs, found = recorded(tmp_path, by_hand)
    names = [costs.trace.names[row] for row in costs.trace.ops.name[found.by_hand & (costs.parent < 0)]]
    assert names.count("aten::matmul") == 2 * len(costs.trace.steps)
    assert {"aten::div", "aten::masked_fill", "aten::softmax", "aten::dropout"} <= set(names)
    assert not found.math.any()


@pytest.mark.parametrize(
    "calls",
    [
        ["aten::bmm", "aten::_softmax"],
        ["aten::_softmax", "aten::bmm"],
        ["aten::addmm", "aten::_softmax", "aten::addmm"],  # a gate between two layers
        ["aten::bmm", *["aten::mul"] * 20, "aten::_softmax", "aten::bmm"],
        ["aten::_scaled_dot_product_flash_attention", "aten::_softmax", "aten::bmm"],
    ],
)
def test_a_softmax_that_is_not_between_two_batched_products_is_none(calls: list[str]) -> None:
    events = [op(10 * number, 9, name) for number, name in enumerate(calls)]
    assert not attention(op_costs(trace(step(1, 0, 1000), *events))).forward.any()


def test_products_of_the_backward_pass_and_of_other_threads_are_none() -> None:
    events = [
        op(0, 90, NODE + "BmmBackward0"),
        op(1, 5, "aten::bmm"),
        op(10, 5, "aten::_softmax"),
        op(20, 5, "aten::bmm"),
    ]
    assert not attention(op_costs(trace(step(1, 0, 1000), *events))).forward.any()
    events = [op(0, 5, "aten::bmm", tid=1), op(10, 5, "aten::_softmax", tid=2), op(20, 5, "aten::bmm", tid=3)]
    assert not attention(op_costs(trace(step(1, 0, 1000), *events))).forward.any()
