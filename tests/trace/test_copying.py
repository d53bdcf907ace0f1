import pytest

from lightning_perfwatch.trace import copy_costs
from tests.trace.factories import call, copy, kernel, op, step, trace


def test_without_copies_there_is_no_cost() -> None:
    assert copy_costs(trace(step(1, 0, 100), op(0, 50))) == ()
    assert copy_costs(trace(op(0, 0))) == ()


def test_a_copy_is_exposed_where_no_kernel_runs() -> None:
    recorded = trace(step(1, 0, 100), copy(10, 40), kernel(30, 60, stream=8), call(0, 1))
    (cost,) = copy_costs(recorded)
    assert (cost.direction, cost.pageable, cost.num_copies, cost.per_step) == ("HtoD", True, 1, 1.0)
    assert cost.exposed_share == pytest.approx(0.2)
    assert cost.hideable_share == pytest.approx(0.2)
    assert cost.bytes_per_copy == 1024


def test_without_steps_nothing_is_per_step() -> None:
    (cost,) = copy_costs(trace(copy(10, 40), kernel(50, 60), call(0, 1)))
    assert (cost.num_copies, cost.per_step) == (1, None)


def test_only_what_there_is_other_work_for_can_be_hidden() -> None:
    (cost,) = copy_costs(trace(step(1, 0, 100), copy(0, 80), kernel(80, 20)))
    assert cost.exposed_share == pytest.approx(0.8)
    assert cost.hideable_share == pytest.approx(0.2)


def test_copies_of_the_other_direction_have_an_engine_of_their_own() -> None:
    recorded = trace(step(1, 0, 100), copy(0, 60), copy(60, 40, "DtoH (Device -> Pageable)"))
    to_device, to_host = copy_costs(recorded)
    assert (to_device.direction, to_host.direction) == ("HtoD", "DtoH")
    assert to_device.hideable_share == pytest.approx(0.4)
    assert to_host.hideable_share == pytest.approx(0.4)


def test_kinds_of_memory_are_apart_and_copies_outside_of_the_window_left_out() -> None:
    pinned = copy(50, 10, "HtoD (Pinned -> Device)")
    recorded = trace(copy(0, 5), step(1, 10, 90), copy(20, 20), pinned)
    assert [(cost.pageable, cost.num_copies) for cost in copy_costs(recorded)] == [(True, 1), (False, 1)]


def test_copies_that_run_both_ways_at_once_are_hidden_already() -> None:
    both = copy(20, 60, "DtoH (Device -> Pinned)", stream=8)
    to_device, to_host = copy_costs(trace(step(1, 0, 100), copy(0, 100, "HtoD (Pinned -> Device)"), both))
    assert (to_device.exposed_share, to_host.exposed_share) == pytest.approx((1.0, 0.6))
    assert (to_device.hideable_share, to_host.hideable_share) == (0.0, 0.0)
