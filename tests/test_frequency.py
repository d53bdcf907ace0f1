import pytest

from lightning_perfwatch.frequency import how_many, how_often


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
