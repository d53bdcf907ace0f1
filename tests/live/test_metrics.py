from __future__ import annotations

import re

import pytest

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.live.metrics import PREFIX, MetricRow, RowSums
from lightning_perfwatch.measurements import PHASES

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


def test_the_table_in_the_documentation_names_exactly_what_is_logged() -> None:
    documented = re.findall(r"^    ``(\w+)`` ", str(MetricRow.__doc__), flags=re.MULTILINE)

    sums = RowSums(1)
    sums.add(STEP_NS, 1e9)
    sums.add_interval(interval(2, 20, 5))
    assert [PREFIX + name for name in documented] == list(sums.take(7, 1e12).metrics)
