import pytest

from lightning_perfwatch.trace import filled_share
from tests.trace.factories import Json, kernel, step, trace


def sized(start: float, dur: float, blocks: object, name: str = "sgemm") -> Json:
    made = kernel(start, dur, name)
    made["args"]["blocks per SM"] = blocks
    return made


def test_unknown_without_the_sizes_of_grids() -> None:
    assert filled_share(trace(step(1, 0, 100), kernel(0, 50)), 0) is None
    assert filled_share(trace(step(1, 0, 100), sized(0, 50, 1.0)), 1) is None


def test_the_mean_over_the_time_of_kernels_and_no_more_than_one_each() -> None:
    recorded = trace(step(1, 0, 100), sized(0, 30, 0.25), sized(40, 10, 8.0))
    assert filled_share(recorded, 0) == pytest.approx((30 * 0.25 + 10) / 40)


def test_kernels_that_tell_nothing_or_communicate_are_left_out() -> None:
    others = (kernel(60, 10), sized(70, 20, 0.1, "ncclDevKernel_AllReduce"), sized(95, 5, "-1"), sized(50, 5, None))
    assert filled_share(trace(step(1, 0, 100), sized(0, 30, 0.25), *others), 0) == pytest.approx(0.25)
