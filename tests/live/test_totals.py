from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.counts import Counted, Totals
from lightning_perfwatch.live.totals import CHECKPOINT_KEY, RunTotals


def counted(num_batches: int, **changes: Any) -> Counted:
    amounts = {"samples": 2 * num_batches, "tokens": 8 * num_batches, "nonpadding_tokens": 5 * num_batches}
    return Counted(num_batches, num_batches, **{**amounts, **changes})


def totals_of(num_batches: int) -> Totals:
    return Totals(num_batches, num_batches, 2 * num_batches, 8 * num_batches, 5 * num_batches)


def resumed(checkpoint: dict[str, Any], rank: int = 0) -> RunTotals:
    totals = RunTotals()
    totals.load(checkpoint, rank)
    totals.begin(is_resumed=True)
    return totals


def saved(totals: RunTotals) -> dict[str, Any]:
    checkpoint: dict[str, Any] = {}
    totals.save(checkpoint, rank=0)
    return checkpoint


def test_a_checkpoint_carries_the_totals_into_the_next_session() -> None:
    first = RunTotals()
    first.begin(is_resumed=False)
    assert first.add(counted(4)) == totals_of(4)
    assert first.add(counted(10)) == totals_of(10), "a session is told again and again, and counts once"

    second = resumed(saved(first))
    assert second.add(counted(0, samples=None, tokens=None, nonpadding_tokens=None)) == totals_of(10)
    assert second.add(counted(3)) == totals_of(13)
    assert resumed(saved(second)).add(counted(1)) == totals_of(14)


def test_a_new_training_begins_at_nothing_whatever_was_trained_before() -> None:
    totals = RunTotals()
    totals.begin(is_resumed=False)
    totals.add(counted(10))
    totals.begin(is_resumed=False)

    assert totals.add(counted(1)) == totals_of(1)


def test_a_trainer_that_goes_on_without_a_checkpoint_goes_on_counting() -> None:
    totals = RunTotals()
    totals.begin(is_resumed=False)
    totals.add(counted(10))
    totals.begin(is_resumed=True)

    assert totals.add(counted(1)) == totals_of(11)


def test_an_amount_that_was_unknown_once_stays_so() -> None:
    first = RunTotals()
    first.begin(is_resumed=False)
    first.add(counted(4, tokens=None))

    assert resumed(saved(first)).add(counted(1)) == Totals(5, 5, 10, None, 25)


@pytest.mark.parametrize(
    "stored",
    [{}, {CHECKPOINT_KEY: None}, {CHECKPOINT_KEY: {"num_batches": 4}}, {CHECKPOINT_KEY: {"rank": 1, "num_batches": 4}}],
)
def test_without_this_ranks_totals_in_the_checkpoint_they_are_unknown(stored: dict[str, Any]) -> None:
    assert resumed(stored).add(counted(3)) == Totals(None, None, None, None, None)


def test_a_strange_number_in_a_checkpoint_is_unknown_and_no_error() -> None:
    stored = {CHECKPOINT_KEY: {"rank": 0, "num_batches": "many", "samples": 4}}
    assert resumed(stored).add(counted(3)) == Totals(None, None, 10, None, None)


def test_steps_that_nobody_counted_make_all_unknown() -> None:
    totals = RunTotals()
    totals.begin(is_resumed=False)
    totals.add(counted(10))
    totals.lose()

    assert resumed(saved(totals)).add(counted(3)) == Totals(None, None, None, None, None)
    assert totals.add(counted(10)) == Totals(None, None, None, None, None)
