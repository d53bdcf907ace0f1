import pytest

from lightning_perfwatch.frequency import how_long, how_many, how_often, rounded_up, times_rarer


@pytest.mark.parametrize(
    ("count", "per_step", "often", "many"),
    [
        (10, 1.0, "once per step", "1 kernel per step"),
        (25, 2.5, "2.5 times per step", "2.5 kernels per step"),
        (1, 0.1, "0.1 times per step", "0.1 kernels per step"),
        (6, 1999.7, "2,000 times per step", "2,000 kernels per step"),
        (6, 99.96, "100 times per step", "100 kernels per step"),
        (1, None, "once in the trace", "1 kernel in the trace"),
        (20_000, None, "20,000 times in the trace", "20,000 kernels in the trace"),
    ],
)
def test_per_step_or_in_the_trace_and_singular_or_plural(
    count: int, per_step: float | None, often: str, many: str
) -> None:
    assert how_often(count, per_step) == often
    assert how_many(count, "kernel", per_step) == many


def test_durations_are_told_in_the_unit_that_suits() -> None:
    assert (how_long(1.25), how_long(0.0321)) == ("1.2 s", "32 ms")


def test_what_comes_rarer_takes_the_wanted_share_beside_the_same_rest() -> None:
    rarer = times_rarer(0.5, 0.05)
    assert 0.5 / rarer / (0.5 / rarer + 0.5) == pytest.approx(0.05)


def test_numbers_to_set_are_rounded_up_to_two_digits() -> None:
    assert [rounded_up(value) for value in (0.2, 7.1, 99.0, 1234.0)] == [1, 8, 99, 1300]
