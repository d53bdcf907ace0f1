import pytest

from lightning_perfwatch.trace import launches_in_steps
from tests.trace.factories import call, frame, kernel, op, optimizer_step, step, trace


def test_without_launched_kernels_nothing_is_known() -> None:
    assert launches_in_steps(trace(step(1, 0, 100), op(0, 50))) is None
    assert launches_in_steps(trace(step(1, 0, 100), kernel(0, 50))) is None


def test_who_launches_most() -> None:
    recorded = trace(
        step(1, 0, 100),
        frame("net.py(4): forward", 0, 60),
        frame("nn.Module: Linear_0", 5, 20), op(10, 10), call(12, 2, correlation=1), kernel(20, 5, correlation=1),
        frame("nn.Module: Linear_1", 30, 20), op(35, 10), call(37, 2, correlation=2), kernel(40, 5, correlation=2),
        frame("nn.Module: ReLU_0", 52, 8), op(53, 5, "aten::relu"), call(54, 2, correlation=3),
        kernel(57, 5, correlation=3),
        optimizer_step(70, 20), op(72, 10, "aten::add_"), call(74, 2, correlation=4), kernel(80, 5, correlation=4),
    )  # fmt: skip
    found = launches_in_steps(recorded)
    assert found is not None
    assert (found.num_kernels, found.per_step) == (4, 4.0)
    assert (found.module, found.module_share) == ("Linear", 0.5)
    assert (found.operator, found.operator_share) == ("aten::mm", 0.5)
    assert found.optimizer_share == pytest.approx(0.25)
    assert found.place is not None
    assert (found.place.file, found.place.line) == ("net.py", 4)


def test_launches_outside_of_operators_have_no_launcher() -> None:
    found = launches_in_steps(trace(step(1, 0, 100), call(12, 2, correlation=1), kernel(20, 5, correlation=1)))
    assert found is not None
    assert (found.module, found.operator, found.place, found.optimizer_share) == (None, None, None, 0.0)


def test_without_steps_nothing_is_per_step() -> None:
    found = launches_in_steps(trace(call(12, 2, correlation=1), kernel(20, 5, correlation=1)))
    assert found is not None
    assert (found.num_kernels, found.per_step) == (1, None)


def test_an_operator_without_a_name_is_nobodys() -> None:
    events = [op(10, 10, ""), call(12, 2, correlation=1), kernel(20, 5, correlation=1)]
    events += [op(30, 10, ""), call(32, 2, correlation=2), kernel(40, 5, correlation=2)]
    nameless = launches_in_steps(trace(step(1, 0, 100), *events))
    assert nameless is not None
    assert (nameless.operator, nameless.operator_share) == (None, None)
    events += [op(50, 10), call(52, 2, correlation=3), kernel(60, 5, correlation=3)]
    named = launches_in_steps(trace(step(1, 0, 100), *events))
    assert named is not None
    assert named.operator == "aten::mm"
    assert named.operator_share == pytest.approx(1 / 3)
