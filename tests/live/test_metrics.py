from __future__ import annotations

import re

import pytest

from lightning_perfwatch.live.metrics import PREFIX, MetricRow, RowSums
from lightning_perfwatch.measurements import PHASES

STEP_NS = [1_000_000, 0, 2_000_000, 4_000_000, 1_000_000, 0, 2_000_000]


def row_of(*steps: tuple[int | None, int | None], world_size: int = 1) -> MetricRow:
    sums = RowSums(world_size)
    for samples, tokens in steps:
        sums.add(STEP_NS, samples, tokens)
    return sums.take(7)


def test_a_row_holds_the_rates_and_shares_of_its_steps() -> None:
    row = row_of((2, 20), (3, 30))

    assert row.step == 7
    assert row.metrics == pytest.approx(
        {
            "perfwatch/tokens_per_s": 50 / 0.02,
            "perfwatch/samples_per_s": 5 / 0.02,
            "perfwatch/step_time_ms": 10.0,
            "perfwatch/data_wait_share": 0.1,
            "perfwatch/transfer_share": 0.0,
            "perfwatch/forward_share": 0.2,
            "perfwatch/backward_share": 0.4,
            "perfwatch/optimizer_share": 0.1,
            "perfwatch/callbacks_share": 0.0,
            "perfwatch/other_share": 0.2,
        }
    )


def test_rates_are_those_of_all_ranks_and_the_step_is_ones_own() -> None:
    alone, of_four = row_of((2, 20)).metrics, row_of((2, 20), world_size=4).metrics

    assert of_four[PREFIX + "tokens_per_s"] == 4 * alone[PREFIX + "tokens_per_s"]
    assert of_four[PREFIX + "samples_per_s"] == 4 * alone[PREFIX + "samples_per_s"]
    assert of_four[PREFIX + "step_time_ms"] == alone[PREFIX + "step_time_ms"]


@pytest.mark.parametrize(
    ("steps", "left_out"),
    [
        ([(2, None), (2, 20)], {"tokens_per_s"}),
        ([(None, 20), (2, 20)], {"samples_per_s"}),
        ([(2, 20), (None, None)], {"tokens_per_s", "samples_per_s"}),
    ],
)
def test_what_can_not_be_told_is_left_out_and_never_none(
    steps: list[tuple[int | None, int | None]], left_out: set[str]
) -> None:
    """TensorBoardLogger raises for None."""
    whole, found = row_of((2, 20)).metrics, row_of(*steps).metrics

    assert whole.keys() - found.keys() == {PREFIX + name for name in left_out}
    assert all(isinstance(value, float) for value in found.values())


def test_mfu_is_logged_where_flops_of_all_steps_and_peak_are_known() -> None:
    sums = RowSums(4)
    for _ in range(2):
        sums.add(STEP_NS, 2, 20, 3e9)
    assert sums.take(7, 1e12).metrics[PREFIX + "mfu"] == pytest.approx(6e9 / 0.02 / 1e12)

    for flops, peak_flops_per_s in ((3e9, None), (None, 1e12)):
        sums.add(STEP_NS, 2, 20, 3e9)
        sums.add(STEP_NS, 2, 20, flops)
        assert PREFIX + "mfu" not in sums.take(8, peak_flops_per_s).metrics


def test_each_row_begins_anew() -> None:
    sums = RowSums(1)
    sums.add([100_000_000] * len(PHASES), None, None)
    sums.take(1)
    sums.add(STEP_NS, 2, 20)

    assert sums.take(2) == MetricRow(2, row_of((2, 20)).metrics)


def test_a_row_without_time_is_empty() -> None:
    assert RowSums(1).take(3) == MetricRow(3, {})
    sums = RowSums(1)
    sums.add([0] * len(PHASES), 1, 1)
    assert sums.take(3).metrics == {}


def test_the_table_in_the_documentation_names_exactly_what_is_logged() -> None:
    documented = re.findall(r"^    ``(\w+)``  ", str(MetricRow.__doc__), flags=re.MULTILINE)

    sums = RowSums(1)
    sums.add(STEP_NS, 2, 20, 1e9)
    assert [PREFIX + name for name in documented] == list(sums.take(7, 1e12).metrics)
