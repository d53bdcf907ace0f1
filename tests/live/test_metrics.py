from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.live.metrics import (
    PREFIX,
    RESULT_PREFIX,
    MetricRow,
    RowSums,
    result_metrics,
    window_metrics,
)
from lightning_perfwatch.measurements import PHASES, Overhead, RunInfo
from lightning_perfwatch.report import Phase, Report, StepTime, Throughput
from lightning_perfwatch.trace import DeviceBreakdown, HostStep

STEP_NS = [1_000_000, 0, 2_000_000, 4_000_000, 1_000_000, 0, 2_000_000]


def interval(samples: int | None = 2, tokens: int | None = 20, nonpadding: int | None = None) -> Interval:
    """Two steps of 10 ms on the host, which took 25 ms until the device had done them."""
    return Interval(0, 2, 0.025, samples, tokens, nonpadding_tokens=nonpadding)


def row_of(*intervals: Interval, world_size: int = 1) -> MetricRow:
    sums = RowSums(world_size)
    for one in intervals:
        for _ in range(one.num_steps):
            sums.add(STEP_NS)
        sums.add_interval(one)
    return sums.take(7)


def test_a_row_holds_the_rates_and_shares_of_its_steps() -> None:
    row = row_of(interval(2, 20, 5), interval(3, 30, 10))

    assert row.step == 7
    assert row.metrics == pytest.approx(
        {
            "perfwatch/tokens_per_s": 50 / 0.05,
            "perfwatch/nonpadding_tokens_per_s": 15 / 0.05,
            "perfwatch/samples_per_s": 5 / 0.05,
            "perfwatch/step_time_ms": 12.5,
            "perfwatch/data_wait_share": 0.1,
            "perfwatch/transfer_share": 0.0,
            "perfwatch/forward_share": 0.2,
            "perfwatch/backward_share": 0.4,
            "perfwatch/optimizer_share": 0.1,
            "perfwatch/callbacks_share": 0.0,
            "perfwatch/other_share": 0.2,
        }
    )


def test_of_several_processes_the_rates_are_this_ones_and_named_so() -> None:
    alone, of_four = row_of(interval(2, 20, 5)).metrics, row_of(interval(2, 20, 5), world_size=4).metrics

    rates = {name for name in alone if name.endswith("_per_s")}
    assert len(rates) == 3
    assert of_four == {name + "_rank" if name in rates else name: value for name, value in alone.items()}


@pytest.mark.parametrize(
    ("intervals", "left_out"),
    [
        ([interval(tokens=None), interval()], {"tokens_per_s", "nonpadding_tokens_per_s"}),
        ([interval(samples=None, nonpadding=1), interval(nonpadding=2)], {"samples_per_s"}),
        ([interval(nonpadding=1), interval()], {"nonpadding_tokens_per_s"}),
        ([interval(), interval(None, None)], {"tokens_per_s", "nonpadding_tokens_per_s", "samples_per_s"}),
    ],
)
def test_what_can_not_be_told_is_left_out_and_never_none(intervals: list[Interval], left_out: set[str]) -> None:
    """TensorBoardLogger raises for None."""
    whole, found = row_of(interval(2, 20, 5)).metrics, row_of(*intervals).metrics

    assert whole.keys() - found.keys() == {PREFIX + name for name in left_out}
    assert all(isinstance(value, float) for value in found.values())


def test_mfu_is_logged_where_flops_of_all_steps_and_peak_are_known() -> None:
    sums = RowSums(4)
    for _ in range(2):
        sums.add(STEP_NS, 3e9)
    sums.add_interval(interval())
    assert sums.take(7, 1e12).metrics[PREFIX + "mfu"] == pytest.approx(6e9 / 0.025 / 1e12)

    for flops, peak_flops_per_s in ((3e9, None), (None, 1e12)):
        sums.add(STEP_NS, 3e9)
        sums.add(STEP_NS, flops)
        sums.add_interval(interval())
        assert PREFIX + "mfu" not in sums.take(8, peak_flops_per_s).metrics


def test_each_row_begins_anew() -> None:
    sums = RowSums(1)
    sums.add([100_000_000] * len(PHASES))
    sums.add_interval(interval(None, None))
    sums.take(1)
    sums.add(STEP_NS)
    sums.add_interval(interval())

    assert sums.take(2) == MetricRow(2, row_of(interval()).metrics)


def test_a_row_without_time_is_empty() -> None:
    assert RowSums(1).take(3) == MetricRow(3, {})
    sums = RowSums(1)
    sums.add([0] * len(PHASES))
    assert sums.take(3).metrics == {}


def test_percentiles_are_of_the_steps_since_the_last_row() -> None:
    sums = RowSums(1)
    for _ in range(4):
        sums.add(STEP_NS)
    sums.add_interval(interval())
    sums.add_interval(interval())
    asked: list[int] = []

    def newest_step_s(num_steps: int) -> Any:
        asked.append(num_steps)
        return np.array([0.010, 0.010, 0.010, 0.050])

    metrics = sums.take(7, newest_step_s=newest_step_s).metrics
    assert asked == [4]
    assert metrics[PREFIX + "step_time_p50_ms"] == pytest.approx(10.0)
    assert metrics[PREFIX + "step_time_p95_ms"] == pytest.approx(44.0)


@pytest.mark.parametrize("num_steps", [1, 2, 7, 50])
def test_percentiles_are_those_of_numpy(num_steps: int) -> None:
    step_s = np.random.default_rng(num_steps).random(num_steps)
    sums = RowSums(1)
    sums.add(STEP_NS)
    sums.add_interval(interval())

    metrics = sums.take(7, newest_step_s=lambda _: step_s).metrics
    found = [metrics[PREFIX + "step_time_p50_ms"], metrics[PREFIX + "step_time_p95_ms"]]
    assert found == pytest.approx((np.percentile(step_s, [50, 95]) * 1e3).tolist())


def test_percentiles_that_were_not_measured_are_left_out() -> None:
    sums = RowSums(1)
    sums.add(STEP_NS)
    sums.add_interval(interval())

    assert not [name for name in sums.take(7, newest_step_s=lambda _: None).metrics if "_p50_" in name]


def host_step(operators_s: float | None) -> HostStep:
    return HostStep(0, 0.0, 0.1, 0.02, operators_s, None, 0.03, None)


def device(busy_share: float) -> Any:
    return DeviceBreakdown(
        0, "H200", busy_share, 1 - busy_share, None, None, 0.0, 0.0, 0.0, 0.0, None, None, None, None
    )


def run_on(device_type: str) -> RunInfo:
    return RunInfo(device_type, device_type, device_type == "cuda", num_cpus=4)


WHOLE = Report(
    run=run_on("cpu"),
    throughput=Throughput(
        tokens_per_s=100.0,
        samples_per_s=10.0,
        steps_per_s=5.0,
        mfu=0.4,
        goodput_share=0.9,
        step_time_s=StepTime(p50=0.19, p95=0.3, mean=0.2, num_steps=8),
    ),
    phases={"data_wait": Phase(share=0.25, s_per_step=0.05)},
    host_steps=(host_step(0.05), host_step(0.07)),
    devices=(device(0.5), device(0.7)),
    overhead=Overhead(hooks_s=0.0008, num_steps=8),
    findings=(
        Finding("host-sync", Severity.CRITICAL, 0.3, "", ""),
        Finding("gc-pause", Severity.INFO, None, "", ""),
    ),
)


def test_a_window_tells_how_busy_the_device_was_and_what_perfwatch_costs() -> None:
    assert window_metrics(WHOLE) == pytest.approx(
        {
            "perfwatch/device_busy_share": 0.6,
            "perfwatch/operators_share": 0.6,
            "perfwatch/own_cost_us": 100.0,
            "perfwatch/own_cost_share": 0.0005,
        }
    )


def test_beside_a_gpu_operators_on_the_cpu_are_no_measure_of_how_busy_the_device_is() -> None:
    assert "perfwatch/operators_share" not in window_metrics(replace(WHOLE, run=run_on("cuda")))


@pytest.mark.parametrize(
    "report",
    [
        Report(),
        Report(overhead=Overhead(hooks_s=0.0, num_steps=0)),
        Report(run=run_on("cpu"), host_steps=(host_step(None),)),
        Report(throughput=Throughput(tokens_per_s=math.nan, mfu=math.inf)),
    ],
)
def test_what_a_report_does_not_know_is_no_metric(report: Report) -> None:
    assert window_metrics(report) == {}
    assert result_metrics(report) == {RESULT_PREFIX + "num_findings": 0, RESULT_PREFIX + "num_critical_findings": 0}


def test_the_result_is_what_the_report_says() -> None:
    assert result_metrics(WHOLE) == pytest.approx(
        {
            "perfwatch_result/tokens_per_s": 100.0,
            "perfwatch_result/samples_per_s": 10.0,
            "perfwatch_result/steps_per_s": 5.0,
            "perfwatch_result/mfu": 0.4,
            "perfwatch_result/goodput_share": 0.9,
            "perfwatch_result/step_time_p50_ms": 190.0,
            "perfwatch_result/step_time_p95_ms": 300.0,
            "perfwatch_result/data_wait_share": 0.25,
            "perfwatch_result/device_busy_share": 0.6,
            "perfwatch_result/operators_share": 0.6,
            "perfwatch_result/own_cost_share": 0.0005,
            "perfwatch_result/num_findings": 2,
            "perfwatch_result/num_critical_findings": 1,
        }
    )


def test_the_table_in_the_documentation_names_exactly_what_is_logged() -> None:
    page = str(MetricRow.__doc__)
    documented = re.findall(r"^    ``(\w+)`` ", page, flags=re.MULTILINE)
    results = re.findall(r"``(\w+)``", page.partition("``perfwatch_result/``")[2])

    sums = RowSums(1)
    sums.add(STEP_NS, 1e9)
    sums.add_interval(interval(2, 20, 5))
    row = sums.take(7, 1e12, lambda num_steps: np.full(num_steps, 0.01)).metrics
    assert [PREFIX + name for name in documented] == [*row, *window_metrics(WHOLE)]
    assert {RESULT_PREFIX + name for name in results} == set(result_metrics(WHOLE))
