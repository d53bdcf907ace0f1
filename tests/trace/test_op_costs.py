from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightning_perfwatch.trace import OpCosts, Trace, op_costs, read_trace
from tests.trace.factories import MAIN, annotation, call, fetch, kernel, op, optimizer_step, step, trace
from tests.trace.recording import record

NODE = "autograd::engine::evaluate_function: "


def by_name(costs: OpCosts, mask: np.ndarray) -> list[str]:
    return [costs.trace.names[row] for row in costs.trace.ops.name[mask]]


def test_on_a_cpu_an_operator_costs_its_self_time_in_the_steps() -> None:
    costs = op_costs(trace(step(1, 0, 100), op(10, 30, "a"), op(15, 10, "b"), op(200, 50, "after")))
    assert costs.clock == "host"
    assert dict(zip(by_name(costs, costs.us >= 0), costs.us.tolist(), strict=True)) == {"a": 20, "b": 10, "after": 0}
    assert costs.share(costs.named("a".__eq__)) == pytest.approx(0.2)


def test_with_kernels_it_costs_the_work_that_it_launched_itself() -> None:
    costs = op_costs(
        trace(
            step(1, 0, 100),
            op(10, 30, "outer"),
            op(15, 10, "inner"),
            call(16, 2, correlation=1),
            call(30, 2, correlation=2),
            kernel(40, 20, correlation=1),
            kernel(60, 5, correlation=2),
            kernel(70, 9, correlation=7),  # launched before the recording
        )
    )
    assert costs.clock == "device"
    assert costs.us.tolist() == [5, 20]
    assert costs.inclusive(costs.us).tolist() == [25, 20]


def test_work_at_the_same_time_is_divided_among_streams_and_devices() -> None:
    costs = op_costs(
        trace(
            step(1, 0, 100),
            op(0, 10, "a"), call(1, 2, correlation=1), kernel(10, 60, correlation=1),
            op(10, 10, "b"), call(11, 2, correlation=2), kernel(30, 40, correlation=2, device=1),
            op(20, 10, "c"), call(21, 2, correlation=3), kernel(50, 20, correlation=3, stream=8),
        )
    )  # fmt: skip
    assert costs.us.tolist() == pytest.approx([20 + 10 + 20 / 3, 10 + 20 / 3, 20 / 3])
    assert costs.us.sum() == pytest.approx(60)
    assert costs.kernels_us(costs.trace.kernels.device == 1) == pytest.approx(10 + 20 / 3)


def test_without_operators_and_without_steps_nothing_costs_anything() -> None:
    costs = op_costs(trace(annotation("x", 0, 10)))
    assert costs.share(costs.named(lambda name: True)) == 0.0
    assert costs.backward_us(costs.in_forward).sum() == 0.0
    assert len(costs.calls) == 0
    assert op_costs(trace(step(1, 5, 0), op(5, 0))).share_of_us(3.0) == 0.0  # a step of no length


def test_inside_holds_everything_below_at_any_depth() -> None:
    costs = op_costs(trace(op(0, 50, "a"), op(1, 30, "b"), op(2, 10, "c"), op(60, 5, "c"), op(3, 2, "c", tid=9)))
    assert sorted(by_name(costs, costs.inside(costs.named("a".__eq__)))) == ["a", "b", "c"]
    assert by_name(costs, costs.inside(costs.named("b".__eq__))) == ["b", "c"]


def lightning_step() -> Trace:
    """A closure inside of the optimizer's step, as Lightning runs it."""
    return trace(
        step(1, 0, 1000),
        fetch(1, 20),
        op(2, 5, "aten::stack"),
        optimizer_step(30, 900),
        op(40, 100, "aten::mul"),
        op(150, 100, "aten::addmm"),
        annotation("Optimizer.zero_grad#AdamW.zero_grad", 260, 20),
        op(262, 5, "aten::zero_"),
        op(300, 300, NODE + "AddmmBackward0"),
        op(301, 200, "aten::mm"),
        op(610, 100, NODE + "MulBackward0"),
        op(611, 90, "aten::mul"),
        op(800, 50, "aten::_fused_adamw_"),
    )


def test_forward_backward_optimizer_and_loader_are_told_apart() -> None:
    costs = op_costs(lightning_step())
    assert by_name(costs, costs.in_forward) == ["aten::mul", "aten::addmm"]
    assert by_name(costs, costs.in_backward) == [
        NODE + "AddmmBackward0",
        "aten::mm",
        NODE + "MulBackward0",
        "aten::mul",
    ]
    assert (costs.optimizer.start_us[0], costs.optimizer.end_us[0]) == (710, 930)
    assert by_name(costs, costs.within(costs.optimizer)) == ["aten::_fused_adamw_"]
    assert [costs.trace.names[row] for row in costs.trace.ops.name[costs.calls]] == ["aten::mul", "aten::addmm"]


def test_an_optimizer_without_a_closure_takes_all_of_its_step() -> None:
    costs = op_costs(trace(step(1, 0, 100), op(0, 20, NODE + "MulBackward0"), optimizer_step(50, 40)))
    assert (costs.optimizer.start_us[0], costs.optimizer.end_us[0]) == (50, 90)


def test_the_backward_pass_is_shared_out_by_the_cost_of_the_forward() -> None:
    costs = op_costs(
        trace(
            step(1, 0, 1000),
            op(0, 30, "aten::mul"),
            op(40, 10, "aten::mul_"),
            op(60, 10, "aten::tanh"),
            op(100, 80, NODE + "MulBackward0"),
            op(110, 60, "aten::mul"),
            op(200, 30, NODE + "TanhBackward0"),
        )
    )
    first = costs.named("aten::mul".__eq__) & costs.in_forward
    assert costs.backward_us(first).sum() == pytest.approx(0.75 * 80, rel=1e-4)
    assert costs.backward_us(costs.named("aten::tanh".__eq__)).sum() == pytest.approx(30, rel=1e-4)
    assert costs.backward_us(costs.in_forward).sum() == pytest.approx(110, rel=1e-4)
    assert costs.backward_us(costs.in_backward).sum() == 0.0


def test_on_a_real_trace_nothing_is_counted_twice(tmp_path: Path) -> None:
    record(tmp_path / "trace.json")
    costs = op_costs(read_trace(tmp_path / "trace.json"))
    forward, backward = costs.in_forward, costs.in_backward
    assert not (forward & backward).any()
    assert "aten::addmm" in by_name(costs, costs.inside(forward))
    assert 0 < costs.backward_us(forward).sum() <= costs.us[backward].sum() * (1 + 1e-9)
    assert set(costs.trace.ops.tid[costs.calls]) == {costs.trace.threads.index((_pid(costs.trace), _pid(costs.trace)))}
    assert MAIN not in costs.trace.ops.tid


def _pid(trace: Trace) -> object:
    return trace.threads[int(trace.steps.tid[0])].pid
