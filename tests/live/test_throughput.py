from __future__ import annotations

import pytest
import torch

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.live.throughput import MOST_INTERVALS, Throughput


def test_without_steps_there_is_no_interval_and_amounts_are_unknown() -> None:
    throughput = Throughput()
    throughput.add_wait(1.0)

    assert throughput.close() is None
    assert throughput.counted(0, 3) == Counted(0, 0, None, None, num_synchronizations=3)


def test_an_interval_holds_its_steps_and_the_wait_at_its_edge() -> None:
    throughput = Throughput()
    throughput.add(0.5, 4, 64, clean=True)
    throughput.add(0.25, 2, 32, clean=True)
    throughput.add_wait(0.125)

    assert throughput.close() == Interval(1, 2, 0.875, samples=6, tokens=96, clean=True)
    assert throughput.close() is None

    throughput.add(1.0, 1, 1, clean=True)
    assert throughput.close() == Interval(2, 1, 1.0, samples=1, tokens=1, clean=True)


@pytest.mark.parametrize("amounts", [(4, 64, None), (4, None, None), (2, 8, 5)])
def test_steps_that_count_alike_may_be_added_at_once(amounts: tuple[int | None, ...]) -> None:
    at_once, one_by_one = Throughput(), Throughput()
    at_once.add(0.75, *amounts, num_steps=3)
    for _ in range(3):
        one_by_one.add(0.25, *amounts)

    assert at_once.close() == one_by_one.close()
    assert at_once.counted(3, 0) == one_by_one.counted(3, 0)


def test_one_step_that_is_not_clean_spoils_its_interval_and_no_other() -> None:
    throughput = Throughput()
    cleanliness = []
    for interval in ((True, False, True), (True, True)):
        for clean in interval:
            throughput.add(1.0, 1, 1, clean=clean)
        closed = throughput.close()
        assert closed is not None
        cleanliness.append(closed.clean)

    assert cleanliness == [False, True]


def test_an_unknown_amount_makes_its_interval_and_the_total_unknown_but_not_the_other_amount() -> None:
    throughput = Throughput()
    throughput.add(1.0, 4, None, clean=True)
    throughput.add(1.0, 4, 64, clean=True)
    throughput.close()
    throughput.add(1.0, 4, 64, clean=True)
    throughput.close()

    counted = throughput.counted(3, 2)

    assert [interval.tokens for interval in counted.intervals] == [None, 64]
    assert [interval.samples for interval in counted.intervals] == [8, 4]
    assert (counted.tokens, counted.samples) == (None, 12)


def test_what_lies_in_the_open_interval_is_not_counted_yet() -> None:
    throughput = Throughput()
    throughput.add(0.1, 2, 16)
    throughput.close()
    throughput.add(0.1, 2, 16)
    assert throughput.num_steps == 1

    assert throughput.counted(0, 0).num_batches == 1
    throughput.close()
    found = throughput.counted(0, 0)
    assert (found.num_batches, found.samples, found.tokens) == (2, 4, 32)


def test_counts_on_a_device_are_read_at_the_edge_and_padding_is_a_figure_of_its_own() -> None:
    throughput = Throughput()
    throughput.add(1.0, 2, torch.tensor(20), torch.tensor(11))
    throughput.add(1.0, 2, 10, torch.tensor(4))
    closed = throughput.close()

    assert closed == Interval(1, 2, 2.0, samples=4, tokens=30, nonpadding_tokens=15)
    found = throughput.counted(2, 1, "attention_mask")
    assert (found.tokens, found.nonpadding_tokens, found.nonpadding_by) == (30, 15, "attention_mask")


def test_a_long_run_keeps_the_newest_intervals_and_the_totals_of_all() -> None:
    throughput = Throughput()
    for _ in range(MOST_INTERVALS + 10):
        throughput.add(0.5, 2, 3, clean=True)
        throughput.close()

    counted = throughput.counted(7, 8)

    assert len(counted.intervals) == MOST_INTERVALS
    assert counted.intervals[0].last_step == 10
    assert counted.intervals[-1].last_step == MOST_INTERVALS + 9
    assert counted.tokens == 3 * (MOST_INTERVALS + 10)
    assert (counted.num_optimizer_steps, counted.num_synchronizations) == (7, 8)
    assert sum(interval.duration_s for interval in counted.intervals) == pytest.approx(0.5 * MOST_INTERVALS)
