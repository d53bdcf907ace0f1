from __future__ import annotations

from lightning_perfwatch.counts import Counted, Flops
from lightning_perfwatch.measurements import Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.measured import measured
from tests.reporters.factories import HOSTILE, intervals, report, run_info


def told(given: Report) -> dict[str, str]:
    return {fact.name: fact.value for fact in measured(given)}


def test_a_report_of_nothing_says_nothing() -> None:
    assert told(Report()) == {}


def test_the_clock_of_the_steps_is_named() -> None:
    assert "by the host's clock" in told(report())["steps"]
    assert "on the device's clock" in told(report(run=run_info(device_is_asynchronous=True)))["steps"]


def test_windows_are_told_one_by_one() -> None:
    whole = Window(first_step=20, num_steps=3, planned_steps=3, size_mb=12.34, export_s=0.5)
    assert told(report(windows=(whole,)))["profiled window"] == "3 steps from step 20 on, 12.3 MB, 500 ms to write"

    cut = Window(first_step=90, num_steps=1, planned_steps=3, partial=True, reason=HOSTILE, rank=2)
    windows = told(report(windows=(whole, cut)))
    assert windows["window 2"].startswith("1 of 3 steps from step 90 on, rank 2, <script>")
    assert windows["window 2"].isprintable()


def test_a_viewer_is_named_where_there_is_a_trace_to_view() -> None:
    """K#857, K#1065, K#1009 (50): the profiler tab is no longer developed."""
    none = Window(first_step=20, num_steps=3, planned_steps=3)
    stored = Window(first_step=20, num_steps=3, planned_steps=3, trace="rank0.1.pt.trace.json.gz")

    assert "event by event" not in told(report(windows=(none,)))
    assert "ui.perfetto.dev" in told(report(windows=(stored,)))["event by event"]


def test_counting_and_circumstances_are_told_where_they_are_known() -> None:
    counted = Counted(
        20,
        20,
        1,
        1,
        intervals=intervals(1.0, 2.0),
        num_synchronizations=7,
        nonpadding_by="labels",
        sync_policy="rarely",
    )
    run = run_info(
        num_threads=2,
        strategy="ddp",
        optimizers=("AdamW",),
        accumulate_grad_batches=4,
        compiled=True,
        torch_version="2.5",
    )
    said = told(report(counted=counted, run=run, flops=Flops(source="counted", reason="no peak is known")))

    assert said["rates"] == "over 2 intervals of training alone"
    assert said["tokens that count"] == "those that have a label"
    assert said["waits for the device"] == "7, rarely"
    assert said["FLOPs of the model"] == "counted from the operators of one step"
    assert said["not known"] == "no peak is known"
    assert said["CPUs for this process"] == "2, 2 threads per operator"
    assert said["settings"] == "strategy ddp, AdamW, gradients of 4 batches accumulated, compiled"
    assert said["software"] == "torch 2.5"
