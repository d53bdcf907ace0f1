from lightning_perfwatch.trace import Exchanges, exchanges_in_steps
from tests.trace.factories import Json, annotation, op, optimizer_step, step, trace


def exchanging(start: float, name: str = "c10d::allreduce_") -> list[Json]:
    """A node of the backward pass that reduces gradients."""
    return [op(start, 20, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"), op(start, 10, name)]


def test_one_process_exchanges_nothing() -> None:
    recorded = trace(step(1, 0, 100), optimizer_step(50, 20), step(2, 100, 100))
    assert exchanges_in_steps(recorded) == Exchanges(2, 1, 0, 0)
    assert exchanges_in_steps(trace(op(0, 10))) == Exchanges(0, 0, 0, 0)


def test_steps_that_exchange_without_a_step_of_the_optimizer_are_told() -> None:
    recorded = trace(
        step(1, 0, 100), *exchanging(10),
        step(2, 100, 100), *exchanging(110), optimizer_step(140, 20),
        step(3, 200, 100), *exchanging(210),
    )  # fmt: skip
    assert exchanges_in_steps(recorded) == Exchanges(3, 1, 3, 2)


def test_what_is_reduced_outside_of_the_backward_pass_is_no_gradient() -> None:
    recorded = trace(
        step(1, 0, 100), op(10, 5, "c10d::allreduce_"), step(2, 100, 100), op(105, 5), optimizer_step(110, 50)
    )
    assert exchanges_in_steps(recorded) == Exchanges(2, 1, 0, 0)


def test_older_traces_have_annotations_of_the_backend() -> None:
    node = op(10, 20, "autograd::engine::evaluate_function: AddmmBackward0")
    recorded = trace(step(1, 0, 100), node, annotation("nccl:all_reduce", 15, 10))
    assert exchanges_in_steps(recorded) == Exchanges(1, 0, 1, 1)
