import pytest

from lightning_perfwatch.trace import waits_in_steps
from tests.trace.factories import call, frame, kernel, op, step, trace


def test_none_where_the_host_never_waits() -> None:
    assert waits_in_steps(trace(step(1, 0, 100), call(10, 5, correlation=1), kernel(20, 5, correlation=1))) is None


def test_the_operator_the_call_and_the_line_that_wait() -> None:
    recorded = trace(
        step(1, 0, 100), frame("train.py(9): training_step", 5, 50), op(10, 30, "aten::item"),
        op(12, 25, "aten::_local_scalar_dense"), call(15, 20, "cudaStreamSynchronize"),
        step(2, 100, 100), call(150, 5, "cudaDeviceSynchronize"), op(190, 20),
        step(3, 200, 100), op(250, 5),
    )  # fmt: skip
    found = waits_in_steps(recorded)
    assert found is not None
    assert [found.per_step, found.steps_share] == pytest.approx([2 / 3, 2 / 3])
    assert found.host_share == pytest.approx(25 / 300)
    assert found.operator == "aten::_local_scalar_dense"
    assert found.call == "cudaStreamSynchronize"
    assert found.place is not None
    assert (found.place.file, found.place.line, found.place.function) == ("train.py", 9, "training_step")


def test_without_steps_all_of_the_trace_counts() -> None:
    found = waits_in_steps(trace(op(0, 100), call(50, 25, "cudaStreamSynchronize")))
    assert found is not None
    assert (found.per_step, found.steps_share, found.host_share) == (1.0, 1.0, 0.25)
