import pytest

from lightning_perfwatch.trace import Trace, lone_step
from tests.trace.factories import Json, call, fetch, kernel, op, step, trace


def waiting(*fetches_us: float, on_device: bool = True) -> Trace:
    """Steps of 10 ms; in each the device works when its batch has come."""
    events: list[Json] = []
    for number, fetch_us in enumerate(fetches_us):
        begin = 10_000.0 * number
        events += [step(number, begin, 10_000), op(begin, 10), fetch(begin, fetch_us)]
        if on_device:
            events += [call(begin + fetch_us, 10, correlation=number + 1)]
            events += [kernel(begin + fetch_us + 10, 9_990 - fetch_us, correlation=number + 1)]
    return trace(*events)


def test_none_without_steps_or_without_the_part() -> None:
    assert lone_step(trace(op(0, 10)), "data", 0.05) is None
    assert lone_step(trace(step(1, 0, 100), op(0, 9), kernel(20, 10)), "launch", 0.05) is None
    assert lone_step(waiting(0, 0, 0), "data", 0.05) is None


@pytest.mark.parametrize("on_device", [True, False])
def test_one_step_that_holds_nearly_all_is_found(on_device: bool) -> None:
    found = lone_step(waiting(10, 9_000, 10, 10, on_device=on_device), "data", 0.05)
    assert found is not None
    assert (found.number, found.num_steps) == (1, 4)


@pytest.mark.parametrize("fetches_us", [(600, 600, 600, 600), (9_000, 600, 600, 600), (5_000, 10, 5_000), (10, 9_000)])
def test_what_the_other_steps_have_as_well_is_not(fetches_us: tuple[float, ...]) -> None:
    assert lone_step(waiting(*fetches_us), "data", 0.05) is None


def test_the_parts_are_apart() -> None:
    recorded = waiting(10, 9_000, 10, 10)
    assert lone_step(recorded, "stall", 0.05) is None
