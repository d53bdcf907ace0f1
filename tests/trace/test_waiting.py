import pytest

from lightning_perfwatch.trace import waits_in_steps
from tests.trace.factories import call, copy, frame, kernel, op, step, trace


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
    assert (found.num_waits, found.per_step, found.steps_share, found.host_share) == (1, None, 1.0, 0.25)


def test_the_copy_and_the_synchronisation_of_one_operator_are_one_wait() -> None:
    recorded = trace(
        step(1, 0, 100), op(10, 30, "aten::_local_scalar_dense"), call(11, 8, "cudaMemcpyAsync", 1),
        copy(15, 2, "DtoH (Device -> Pageable)", 1), call(20, 15, "cudaStreamSynchronize"),
        call(60, 5, "cudaDeviceSynchronize"), call(70, 5, "cudaDeviceSynchronize"),
    )  # fmt: skip
    found = waits_in_steps(recorded)
    assert found is not None
    assert found.per_step == 3.0


def test_copies_that_nobody_waits_for_are_no_waits() -> None:
    into_pinned = [call(10, 5, "cudaMemcpyAsync", 1), copy(12, 2, "DtoH (Device -> Pinned)", 1)]
    in_flight = [call(30, 5, "hipMemcpyAsync", 2), copy(50, 20, "DtoH", 2)]
    assert waits_in_steps(trace(step(1, 0, 100), op(5, 90), *into_pinned, *in_flight)) is None
