from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from lightning_perfwatch.live.tally import Tally


def tally_of(*counts: Any) -> Tally:
    tally = Tally()
    for count in counts:
        tally.add(count)
    return tally


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        ((), 0),
        ((3, 4), 7),
        ((torch.tensor(3), 4, torch.tensor([5])), 12),
        ((torch.tensor(2.0), torch.tensor(3, dtype=torch.int32)), 5),
        ((3, None), None),
        ((None, 3), None),
        ((torch.tensor(3), None, torch.tensor(1)), None),
        ((torch.tensor(0.5),), None),
        ((torch.tensor(math.nan),), None),
        ((torch.tensor(math.inf),), None),
        ((torch.tensor(2**30, dtype=torch.int32),) * 3, 3 * 2**30),
        ((torch.tensor(2.0, requires_grad=True),), 2),
    ],
)
def test_the_sum_of_numbers_wherever_they_lie(counts: tuple[Any, ...], total: int | None) -> None:
    assert tally_of(*counts).take() == total


@pytest.mark.parametrize(
    "counts",
    [
        (),
        (torch.tensor(3),),
        (torch.tensor(3), torch.tensor(4), torch.tensor([5])),
        (torch.tensor(3), torch.tensor(4, dtype=torch.int32)),
        (torch.tensor(2.0), torch.tensor(0.5)),
        (torch.tensor(3), None),
        (3, torch.tensor(4), torch.tensor(1)),
    ],
)
def test_several_at_once_are_each_of_them(counts: tuple[Any, ...]) -> None:
    tally = Tally()
    tally.add(7)
    tally.add_all(counts)
    tally.add(torch.tensor(1))
    assert tally.take() == tally_of(7, *counts, torch.tensor(1)).take()


@pytest.mark.parametrize("count", [3, None, torch.tensor(3), torch.tensor([2.0])])
def test_one_count_several_times_is_that_many_counts(count: Any) -> None:
    tally = Tally()
    tally.add(count, 3)
    assert tally.take() == tally_of(count, count, count).take()


def test_each_sum_begins_anew_also_after_an_unknown_one() -> None:
    tally = tally_of(1, None, torch.tensor(5))
    assert tally.take() is None
    assert tally.take() == 0
    tally.add(torch.tensor(2))
    assert tally.take() == 2


def test_adding_reads_nothing_and_leaves_the_users_tensor_as_it_was() -> None:
    with torch.device("meta"):  # where there is nothing to read
        tally_of(*(torch.zeros((), dtype=torch.long) for _ in range(3)))

    bounds = torch.tensor([0, 3, 8])
    tally = tally_of(bounds[-1], bounds[-1])
    bounds[-1] = 100  # a batch whose memory is used again

    assert tally.take() == 16
    assert bounds.tolist() == [0, 3, 100]
