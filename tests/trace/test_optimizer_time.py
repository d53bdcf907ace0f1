import numpy as np

from lightning_perfwatch.trace.optimizer_time import inside, optimizer_intervals
from tests.trace.factories import annotation, op, optimizer_step, step, trace

BACKWARD = "autograd::engine::evaluate_function: MmBackward0"


def test_none_without_an_optimizer() -> None:
    assert optimizer_intervals(trace(step(1, 0, 100), op(0, 50))).tolist() == []


def test_an_optimizer_without_a_closure_is_all_its_own() -> None:
    recorded = trace(step(1, 0, 100), op(10, 20, BACKWARD), optimizer_step(40, 30))
    assert optimizer_intervals(recorded).tolist() == [[40, 70]]


def test_the_closure_in_a_step_is_not_the_optimizers() -> None:
    recorded = trace(
        step(1, 0, 200), optimizer_step(0, 100), annotation("Optimizer.zero_grad#AdamW.zero_grad", 2, 3),
        op(10, 20, "aten::mm"), op(40, 20, BACKWARD), op(62, 30, "aten::add_"),
        optimizer_step(120, 50), op(130, 10, BACKWARD),
    )  # fmt: skip
    own = optimizer_intervals(recorded)
    assert own.tolist() == [[2, 5], [60, 100], [140, 170]]
    assert inside(own, recorded.ops).tolist() == [False, False, True, False]


def test_an_event_that_begins_with_an_interval_lies_in_it_and_one_that_begins_with_its_end_does_not() -> None:
    spans = trace(op(0, 5), op(10, 5), op(20, 5)).ops
    assert inside(np.array([[10.0, 20.0]]), spans).tolist() == [False, True, False]
