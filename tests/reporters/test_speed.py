from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.counts import Counted, Spread, Totals
from lightning_perfwatch.report import Throughput
from lightning_perfwatch.reporters import terminal
from lightning_perfwatch.reporters.speed import nonpadding_name, outside, rate, trained_on
from tests.reporters.factories import report, run_info

NARROW = Spread(median=12_400.0, low=12_100.0, high=12_700.0, num_intervals=20)


@pytest.mark.parametrize(
    ("value", "own", "spread", "said"),
    [
        (12_420.0, None, None, "12,420"),
        (12_420.0, 12_420.0, NARROW, "12,420 (95 % 12,100 to 12,700)"),
        (12_420.0, 6_210.0, NARROW, "12,420 (95 % 12,100 to 12,700; this rank 6,210)"),
        (9_000.0, None, NARROW, "9,000 (median 12,400, 95 % 12,100 to 12,700)"),
        (None, None, None, "not measured"),
        (None, 5.0, NARROW, "not measured on all ranks; 5 on this one"),
    ],
)
def test_a_rate_comes_with_its_interval(value: Any, own: Any, spread: Any, said: str) -> None:
    assert rate(value, own, spread) == said


def counted(**changes: Any) -> Counted:
    return Counted(**{"num_batches": 250, "num_optimizer_steps": 250, "samples": 2000, "tokens": 256_000, **changes})


def test_padding_is_told_by_what_told_it_apart() -> None:
    speed = Throughput(tokens_per_s=2000.0, nonpadding_tokens_per_s=1500.0)
    masked = terminal.render(report(throughput=speed, counted=counted(nonpadding_by="attention_mask")))
    assert "non-padding tokens/s   1,500" in masked
    assert nonpadding_name(counted(nonpadding_by="labels")) == "labelled tokens/s"
    without = Throughput(tokens_per_s=2000.0, nonpadding_tokens_per_s=2000.0)
    assert "padding" not in terminal.render(report(throughput=without, notes=()))


def test_amounts_are_those_of_the_fit_and_of_all_sessions_if_there_were_others() -> None:
    alone = counted(in_all=Totals(250, 250, 2000, 256_000))
    resumed = counted(tokens=None, in_all=Totals(1250, 1250, 10_000, None))

    assert list(trained_on(alone)) == [("trained on", "256,000 tokens, 2,000 samples, 250 batches")]
    assert list(trained_on(resumed)) == [
        ("trained on", "2,000 samples, 250 batches"),
        ("in all sessions", "10,000 samples, 1,250 batches"),
    ]
    assert list(trained_on(counted(in_all=Totals(None, None, None, None)))) == list(trained_on(alone))
    for nothing in (None, counted(num_batches=0)):
        assert list(trained_on(nothing)) == []


def test_how_often_the_device_was_waited_for_is_told_where_there_is_one_to_wait_for() -> None:
    waited = counted(num_synchronizations=12)
    on_gpu = terminal.render(report(run=run_info(device_is_asynchronous=True), counted=waited), width=200)

    assert "waits for the device   12 by PerfWatch, at the edges of intervals only, never inside of one" in on_gpu
    assert "waits for the device" not in terminal.render(report(counted=waited))


@pytest.mark.parametrize("wall_s", [None, {}, {"training": 3.0}, {"training": 3.0, "validation": 0.0}])
def test_a_wall_clock_with_nothing_but_training_needs_no_line(wall_s: dict[str, float] | None) -> None:
    assert outside(wall_s) is None


def test_the_wall_clock_without_a_step_has_no_goodput() -> None:
    assert outside({"setup": 2.0, "training": 0.0}) == "setup 2.00 s (goodput 0 % of 2.00 s wall clock)"
