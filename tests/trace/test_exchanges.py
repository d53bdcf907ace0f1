import pytest

from lightning_perfwatch.trace import (
    Exchanges,
    HostExchange,
    exchange_on_host,
    exchanges_in_steps,
    search_on_host_share,
)
from tests.trace.factories import Json, annotation, fetch, kernel, op, optimizer_step, step, trace


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


def gloo(start: float, dur: float, name: str = "gloo:all_reduce", tid: int = 7) -> Json:
    """An exchange on a thread of the backend's own."""
    return annotation(name, start, dur, tid=tid)


def exposed_share(*events: Json) -> float:
    """The part of a step of 100 µs in which it waits for an exchange."""
    found = exchange_on_host(trace(step(1, 0, 100), *events))
    assert found is not None
    return found.exposed_share


def test_without_an_exchange_on_the_host_nothing_is_told() -> None:
    assert exchange_on_host(trace(step(1, 0, 100), op(0, 50), kernel(0, 50, "ncclDevKernel_AllReduce"))) is None
    assert exchange_on_host(trace(op(0, 50), gloo(0, 50))) is None


def test_an_exchange_that_ends_beside_an_operator_is_not_waited_for() -> None:
    assert exposed_share(op(0, 20), gloo(10, 50), op(30, 40)) == 0.0


def test_of_an_exchange_the_time_after_the_last_operator_is_waited_for() -> None:
    found = exchange_on_host(trace(step(1, 0, 100), op(0, 20), gloo(10, 50), op(30, 10), op(60, 10)))
    assert found == HostExchange("gloo:all_reduce", 0.5, 0.2)


def test_waiting_for_two_at_once_counts_once() -> None:
    assert exposed_share(op(0, 20), gloo(10, 40), gloo(10, 60, tid=8)) == pytest.approx(0.5)


def test_operators_of_the_exchange_itself_and_nodes_around_it_are_no_computation() -> None:
    node = op(20, 60, "autograd::engine::evaluate_function: _AllReduceBackward")
    exchange = [op(20, 60, "c10d::allreduce_"), gloo(20, 60), op(70, 20, "aten::add_", tid=7)]
    assert exposed_share(op(0, 20), node, *exchange) == pytest.approx(0.6)


def test_an_operator_on_another_thread_that_trains_is_computation() -> None:
    assert exposed_share(op(0, 90, tid=9), gloo(10, 50)) == 0.0


def test_waiting_for_the_data_loader_is_no_waiting_for_others() -> None:
    assert exposed_share(op(0, 20), gloo(10, 50), fetch(20, 60)) == 0.0


def test_what_is_waited_for_in_half_of_the_steps_is_not_the_exchange() -> None:
    quick = [[step(at, 200 * at, 100), op(200 * at, 20), gloo(200 * at, 25)] for at in (1, 2, 3)]
    late = [[step(at, 200 * at, 180), op(200 * at, 20), gloo(200 * at, 170)] for at in (4, 5)]
    found = exchange_on_host(trace(*(event for events in (*quick, *late) for event in events)))
    assert found is not None and found.exposed_share == pytest.approx(0.05)


def test_one_late_step_of_three_is_not_what_the_steps_are_like() -> None:
    quick = [[step(at, 100 * at, 100), op(100 * at, 20), gloo(100 * at, 25)] for at in (1, 2)]
    late = [step(3, 300, 200), op(300, 20), gloo(300, 190)]
    found = exchange_on_host(trace(*quick[0], *quick[1], *late))
    assert found is not None and found.exposed_share == pytest.approx(0.05)


def test_the_exchange_that_is_waited_for_longest_is_named() -> None:
    found = exchange_on_host(trace(step(1, 0, 100), op(0, 20), gloo(10, 20), gloo(40, 50, "gloo:all_gather")))
    assert found is not None and found.name == "gloo:all_gather"


def test_the_search_for_unused_parameters_is_told_as_a_part_of_the_steps() -> None:
    search = "torch.distributed.ddp.reducer::search_unused_parameters"
    recorded = trace(
        step(1, 0, 100), op(10, 20, search), op(30, 5, "_DDPSink"), op(60, 5, "_DDPSinkBackward"), step(2, 100, 200),
        op(290, 30, search),
    )  # fmt: skip
    assert search_on_host_share(recorded) == pytest.approx(40 / 300)
    assert search_on_host_share(trace(step(1, 0, 100), op(10, 20))) is None
    assert search_on_host_share(trace(op(10, 20, search))) is None
