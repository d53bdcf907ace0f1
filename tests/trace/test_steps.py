import pytest

from lightning_perfwatch.trace import breakdown, calls_per_step, host_breakdown, step_breakdowns
from tests.trace.factories import kernel, op, optimizer_step, step, trace

# --- silence


def test_trace_with_neither_annotation_has_no_steps() -> None:
    recorded = trace(op(0, 5), op(10, 5))
    assert (len(recorded.steps), recorded.steps.source) == (0, "profiler")
    assert step_breakdowns(recorded) == ()
    assert len(host_breakdown(recorded)) == 0


def test_one_optimizer_step_bounds_no_step() -> None:
    """Nobody knows when the step that it ends has begun."""
    recorded = trace(op(0, 5), optimizer_step(10, 5), op(20, 5))
    assert (len(recorded.steps), recorded.steps.source) == (0, "profiler")
    assert breakdown(recorded).step_s is None


def test_profiler_steps_win_over_optimizer_steps() -> None:
    recorded = trace(step(4, 0, 50), op(0, 5), optimizer_step(10, 5), optimizer_step(20, 5))
    assert (recorded.steps.numbers.tolist(), recorded.steps.source) == ([4], "profiler")


# --- steps between the ends of optimizer steps


def test_step_ends_where_an_optimizer_step_ends() -> None:
    recorded = trace(
        op(0, 5), optimizer_step(10, 5), op(20, 5, "aten::a"), optimizer_step(30, 5), op(40, 5), optimizer_step(60, 6)
    )
    assert recorded.steps.source == "optimizer"
    assert recorded.steps.numbers.tolist() == [1, 2]
    assert recorded.steps.intervals.tolist() == [[15, 35], [35, 66]]
    assert calls_per_step(recorded, {"aten::a"}).tolist() == [1, 0]
    assert breakdown(recorded).step_s == pytest.approx(25.5e-6)
    assert recorded.left_out == ()


def test_optimizer_steps_that_the_file_calls_operators_count() -> None:
    recorded = trace(*[optimizer_step(at, 5) | {"cat": "cpu_op"} for at in (10, 20, 30)], op(0, 1))
    assert len(recorded.steps) == 2


def test_the_optimizer_that_steps_most_often_makes_the_steps() -> None:
    """A GAN's critic steps five times as often as its generator."""
    critic = [optimizer_step(at, 2, "Adam.step") for at in range(10, 110, 10)]
    generator = [optimizer_step(at, 4, "RMSprop.step") for at in (13, 63)]
    assert trace(*critic, *generator, op(0, 1)).steps.dur_us.tolist() == [10] * 9


def test_wrapped_optimizer_lies_inside_its_wrappers_step() -> None:
    inner = [optimizer_step(at + 1, 3, "SGD.step") for at in (10, 20)]
    outer = [optimizer_step(at, 6, "Wrapper.step") for at in (10, 20)]
    assert trace(*inner, *outer, op(0, 1)).steps.intervals.tolist() == [[16, 26]]


def test_steps_of_optimizers_break_down_on_host_and_device() -> None:
    recorded = trace(op(0, 5), *[optimizer_step(at, 5) for at in (10, 60, 110)], op(70, 10), kernel(20, 30))
    (device,) = step_breakdowns(recorded)
    assert device.busy_us.tolist() == [30, 0]
    host = host_breakdown(recorded)
    assert host.operators_us is not None
    assert host.operators_us.tolist() == [0, 10]


def test_steps_know_their_thread() -> None:
    recorded = trace(op(0, 5), step(1, 0, 50, tid=7), op(1, 5, tid=7))
    assert [recorded.threads[tid].tid for tid in recorded.steps.tid] == [7]
