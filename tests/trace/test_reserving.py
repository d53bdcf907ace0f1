import pytest

from lightning_perfwatch.trace import reserving_in_steps
from tests.trace.factories import call, frame, kernel, op, step, trace


def test_a_run_that_only_takes_memory_is_like_every_run() -> None:
    assert reserving_in_steps(trace(step(1, 0, 100), op(0, 50))) is None
    assert reserving_in_steps(trace(step(1, 0, 100), call(0, 50, "cudaMalloc"))) is None


def test_counts_what_steps_give_back_and_what_the_device_waits_for_it() -> None:
    recorded = trace(
        step(1, 0, 100), call(5, 20, "cudaFree"), call(30, 10, "cudaMalloc"), kernel(0, 15, correlation=1),
        step(2, 100, 100), kernel(100, 90, correlation=2), call(110, 10, "hipFree"), call(120, 10, "cudaFreeHost"),
        call(300, 50, "cudaFree"),
    )  # fmt: skip
    found = reserving_in_steps(recorded)
    assert found is not None
    assert (found.num_given_back, found.num_taken, found.num_steps, found.freeing_steps) == (2, 1, 2, 2)
    assert found.host_share == pytest.approx(40 / 200)
    assert found.idle_share == pytest.approx(20 / 200)  # 15 to 25 and 30 to 40
    assert found.place is None


@pytest.mark.parametrize("name", ["cuMemUnmap", "cuMemRelease", "hipMemUnmap", "cuMemFree_v2"])
def test_segments_that_grow_are_unmapped_by_other_names(name: str) -> None:
    assert reserving_in_steps(trace(step(1, 0, 100), call(5, 20, name, cat="cuda_driver"))) is not None


def test_a_trace_without_steps_is_taken_as_a_whole_and_frames_tell_the_place() -> None:
    found = reserving_in_steps(trace(op(0, 100), frame("net.py(7): training_step", 5, 50), call(10, 20, "cudaFree")))
    assert found is not None
    assert (found.num_steps, found.freeing_steps) == (0, 0)
    assert found.host_share == pytest.approx(0.2)
    assert found.place is not None
    assert (found.place.file, found.place.line) == ("net.py", 7)
