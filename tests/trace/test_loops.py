import pytest

from lightning_perfwatch.trace import Trace, host_loops
from tests.trace.factories import Json, annotation, fetch, frame, op, optimizer_step, step, trace


def rounds(count: int, begin: float, names: tuple[str, ...], dur: float = 4.0, gap: float = 6.0) -> list[Json]:
    """A loop: each operator takes `dur` and is followed by `gap` of Python."""
    return [
        op(begin + (dur + gap) * (turn * len(names) + at), dur, name)
        for turn in range(count)
        for at, name in enumerate(names)
    ]


def loop_of(*events: Json) -> Trace:
    return trace(step(1, 0, 10_000), *events)


def test_none_without_steps_operators_or_repeats() -> None:
    assert host_loops(trace(*rounds(100, 0, ("aten::mul",)))) is None
    assert host_loops(loop_of()) is None
    assert host_loops(loop_of(*rounds(1, 0, tuple(f"aten::op{number}" for number in range(60))))) is None


def test_the_cost_of_a_loop_is_its_short_operators_and_the_python_between() -> None:
    found = host_loops(loop_of(*rounds(40, 100, ("aten::select", "aten::mul", "aten::add"))))
    assert found is not None
    assert found.pattern == ("aten::select", "aten::mul", "aten::add")
    assert (found.num_rounds, found.num_operators_per_step, found.median_op_us) == (40, 120, 4.0)
    assert found.overhead_us_per_step == pytest.approx(120 * 4 + 119 * 6)
    assert found.overhead_share == pytest.approx(found.overhead_us_per_step / 10_000)


def test_of_long_operators_only_the_call_counts() -> None:
    found = host_loops(loop_of(*rounds(40, 0, ("aten::mm",), dur=200.0, gap=0.0)))
    assert found is not None
    assert found.overhead_us_per_step == pytest.approx(40 * 20)
    assert found.time_share == pytest.approx(0.8)


def test_operators_within_others_are_called_too() -> None:
    inner = [op(100 * turn + at, 30.0, "aten::view") for turn in range(40) for at in (5.0, 40.0)]
    found = host_loops(loop_of(*rounds(40, 0, ("aten::matmul",), dur=100.0, gap=0.0), *inner))
    assert found is not None
    assert found.num_operators_per_step == 40
    assert found.overhead_us_per_step == pytest.approx(40 * 3 * 20)


def test_rounds_must_be_as_many_as_asked_for() -> None:
    recorded = loop_of(*rounds(31, 0, ("aten::mul", "aten::add")))
    assert host_loops(recorded, min_rounds=32) is None
    assert host_loops(recorded, min_rounds=31) is not None


def test_a_step_is_no_round() -> None:
    steps = [event for number in range(40) for event in (step(number, 100 * number, 100), op(100 * number, 50))]
    assert host_loops(trace(*steps)) is None


def test_loops_of_the_optimizer_and_of_the_loader_are_others() -> None:
    recorded = loop_of(
        optimizer_step(0, 1000), *rounds(50, 0, ("aten::add_",)),
        annotation("Optimizer.zero_grad#SGD.zero_grad", 1500, 1000), *rounds(50, 1500, ("aten::zero_",)),
        fetch(3000, 1000), *rounds(50, 3000, ("aten::stack",)),
    )  # fmt: skip
    assert host_loops(recorded) is None


def test_long_pauses_in_a_loop_are_something_else() -> None:
    found = host_loops(loop_of(*rounds(40, 0, ("aten::mul",), gap=200.0)))
    slow = host_loops(trace(step(1, 0, 100_000), *rounds(40, 0, ("aten::mul",), gap=2_000.0)))
    assert found is not None and slow is not None
    assert found.overhead_us_per_step == pytest.approx(40 * 4 + 39 * 200)
    assert slow.overhead_us_per_step == pytest.approx(40 * 4)


def test_frames_tell_the_place() -> None:
    found = host_loops(loop_of(frame("model.py(40): forward", 0, 5000), *rounds(40, 0, ("aten::mul",))))
    assert found is not None and found.place is not None
    assert (found.place.file, found.place.line) == ("model.py", 40)
