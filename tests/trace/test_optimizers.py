from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_perfwatch.trace import op_costs, read_trace
from lightning_perfwatch.trace.optimizers import OptimizerPart, optimizer_parts, zero_fill
from tests.trace.factories import annotation, call, kernel, op, optimizer_step, step, trace
from tests.trace.recording import record

NODE = "autograd::engine::evaluate_function: "


def part_of(optimizer: torch.optim.Optimizer, path: Path) -> OptimizerPart:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()  # makes its state
    record(path / "trace.json", inside=optimizer.step)
    parts = optimizer_parts(op_costs(read_trace(path / "trace.json")))
    return next(part for part in parts if part.name == type(optimizer).__name__)


@pytest.mark.parametrize("way", ["fused", "foreach", "loop"])
def test_how_torchs_optimizers_work_is_seen(way: str, tmp_path: Path) -> None:
    weights = [torch.nn.Parameter(torch.ones(8)) for _ in range(3)]
    options = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[way]
    part = part_of(torch.optim.AdamW(weights, **options), tmp_path)  # type: ignore[arg-type]
    assert part.way == way
    assert part.calls_per_step == 1
    assert 0 < part.share < 1
    assert (
        part.ops_per_call
        == {"fused": pytest.approx(2, abs=1), "foreach": pytest.approx(19, abs=9), "loop": pytest.approx(39, abs=15)}[
            way
        ]
    )


def test_only_what_follows_the_backward_pass_is_the_optimizers() -> None:
    events = [optimizer_step(0, 100), op(5, 50, NODE + "MulBackward0"), op(60, 30, "aten::_fused_adamw_")]
    (part,) = optimizer_parts(op_costs(trace(step(1, 0, 100), *events)))
    assert part == OptimizerPart("AdamW", "fused", pytest.approx(0.45), 1.0, 1.0)  # type: ignore[arg-type]


def test_an_optimizer_without_operators_has_no_known_way() -> None:
    (part,) = optimizer_parts(op_costs(trace(step(1, 0, 100), optimizer_step(50, 10))))
    assert part.way is None
    assert optimizer_parts(op_costs(trace(step(1, 0, 100), op(0, 5)))) == []


def test_on_a_device_it_lasts_from_its_first_to_its_last_kernel() -> None:
    events = [optimizer_step(10, 40), op(10, 40, "aten::mul_"), call(12, 1, correlation=1), call(30, 1, correlation=2)]
    work = [kernel(20, 5, correlation=1), kernel(60, 10, correlation=2), kernel(80, 20, correlation=9)]
    (part,) = optimizer_parts(op_costs(trace(step(1, 0, 100), *events, *work)))
    assert part.share == pytest.approx(0.5)


def zeroing(*names: str, num_steps: int = 1) -> list[dict[str, Any]]:
    inner = [op(12 + 4 * at, 3, name) for at, name in enumerate(names)]
    adds = [op(50, 20, "torch::autograd::AccumulateGrad"), op(51, 10, "aten::add_"), op(80, 5, "aten::add_")]
    steps = [step(number, 100 * (number - 1), 100) for number in range(1, num_steps + 1)]
    steps += [op(100 * number + 40, 1) for number in range(num_steps)]  # a step without work is no complete one
    return [*steps, annotation("Optimizer.zero_grad#SGD.zero_grad", 10, 30), *inner, *adds]


def test_gradients_set_to_none_fill_nothing() -> None:
    assert zero_fill(op_costs(trace(*zeroing()))) is None
    assert zero_fill(op_costs(trace(step(1, 0, 100), op(5, 5, "aten::zero_")))) is None  # not the optimizer's


@pytest.mark.parametrize("name", ["aten::zero_", "aten::_foreach_zero_"])
def test_the_filling_and_the_additions_count(name: str) -> None:
    found = zero_fill(op_costs(trace(*zeroing(name, name))))
    assert found is not None
    assert (found.fill_share, found.add_share, found.fills_per_step) == (0.06, 0.1, 2.0)
    assert found.share == pytest.approx(0.16)


def test_under_accumulation_only_the_additions_after_a_filling_are_spared() -> None:
    found = zero_fill(op_costs(trace(*zeroing("aten::zero_", num_steps=4))))
    assert found is not None
    assert found.add_share == pytest.approx(0.1 / 4 / 4)
