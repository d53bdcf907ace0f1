"""What PerfWatch itself cost, as it is said."""

from __future__ import annotations

from lightning_perfwatch.measurements import Overhead
from lightning_perfwatch.report import StepTime
from lightning_perfwatch.reporters.own_cost import own_cost

STEP = StepTime(p50=0.1, p95=0.1, mean=0.1, num_steps=10)


def test_all_that_was_measured_is_said_in_one_line() -> None:
    overhead = Overhead(0.001, 10, 0.25, listening_s=8e-6, spared_s=2e-5, recording_s=0.012, analysis_cpu_s=0.5)

    assert own_cost(overhead, STEP) == (
        "100 µs per step (0.1 % of it), 8.00 µs to listen in place of 20.0 µs of Lightning's own, "
        "250 ms to start, stop and write profiles, 12.0 ms by slower recorded steps, 500 ms of CPU to analyse"
    )


def test_what_was_not_measured_is_left_out_and_so_are_recorded_steps_that_were_no_slower() -> None:
    assert own_cost(None, STEP) is None
    assert own_cost(Overhead(0.0, 0), None) == "not measured"
    assert own_cost(Overhead(0.001, 10, recording_s=-0.01), None) == "100 µs per step"
