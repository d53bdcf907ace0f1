"""Which batches are built alike, and that what is known of a structure is no longer used when it changes."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightning_perfwatch.live.batch_counter import Amounts, BatchCounter
from lightning_perfwatch.live.batch_structure import structure


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.long)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ids(2, 3), ids(2, 4)),
        (ids(2, 3), ids(2, 3).float()),
        ({"input_ids": ids(2, 3)}, {"x": ids(2, 3)}),
        ({"a": ids(2), "b": ids(3)}, {"b": ids(2), "a": ids(3)}),
        ((ids(2), ids(3)), [ids(2), ids(3)]),
        ([[ids(2)], ids(3)], [[ids(2), ids(3)]]),
        ([1, "a"], [1, 2]),
        ([None, ids(2)], [ids(2), None]),
    ],
)
def test_batches_that_may_count_otherwise_differ_in_their_structure(one: Any, other: Any) -> None:
    keys = [structure(batch, []) for batch in (one, other)]
    assert keys[0] != keys[1]
    assert None not in keys


def test_batches_built_alike_have_one_structure_and_their_tensors_in_one_order() -> None:
    first, second = ({"a": [ids(2, 3), 4], "b": (ids(5), "text")} for _ in range(2))
    tensors: list[torch.Tensor] = []

    assert structure(first, []) == structure(second, tensors)
    assert [tuple(tensor.shape) for tensor in tensors] == [(2, 3), (5,)]


class Own(torch.Tensor):
    pass


def holding_itself() -> list[Any]:
    batch: list[Any] = []
    batch += [batch, batch]
    return batch


@pytest.mark.parametrize(
    "batch",
    [UserDict(x=ids(2)), ids(2).as_subclass(Own), object(), {object(): ids(2)}, [ids(2)] * 1000, holding_itself()],
)
def test_what_may_run_code_of_its_own_or_is_long_has_no_structure(batch: Any) -> None:
    assert structure(batch, []) is None


def masked(*lengths: int) -> dict[str, torch.Tensor]:
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    return {"input_ids": ids(len(lengths), 6), "attention_mask": mask}


def labelled(num_ignored: int) -> dict[str, torch.Tensor]:
    labels = ids(2, 6)
    labels.view(-1)[:num_ignored] = -100
    return {"input_ids": ids(2, 6), "labels": labels}


def own_labels() -> dict[str, torch.Tensor]:
    """The inputs are the labels: one tensor at two places."""
    inputs = ids(2, 6)
    return {"input_ids": inputs, "labels": inputs}


Batches = Callable[[], list[Any]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: [ids(2, 3), ids(2, 3), ids(1, 3), ids(2, 3).float(), torch.ones(2, 3), ids(2, 3)],
        lambda: [{"input_ids": ids(2, 3)}, {"tokens": ids(2, 5)}, {"other": ids(4)}, {"input_ids": ids(2, 3)}],
        lambda: [masked(6, 2), masked(1, 1), masked(3, 4), masked(6)],
        lambda: [labelled(0), labelled(5), labelled(11)],
        lambda: [own_labels(), labelled(4), own_labels()],
        lambda: [(ids(2, 3), ids(2)), [ids(2, 3), ids(2)], (ids(2, 3), ids(2, 3)), ("a", "b", "c"), ["a", 1]],
    ],
)
def test_a_batch_counts_the_same_whatever_came_before_it(make: Batches) -> None:
    counter = BatchCounter()
    found = [[read(counter.count(batch)) for batch in make()] for _ in range(2)]
    alone = [read(BatchCounter().count(batch)) for batch in make()]

    assert found == [alone, alone]


def test_batches_without_padding_of_one_structure_share_their_amounts() -> None:
    counter = BatchCounter()

    assert counter.count(ids(2, 3)) == counter.count(ids(2, 3)) == Amounts(2, 6)
    assert counter.count(ids(2, 3)) is counter.count(ids(2, 3))


def test_any_number_of_structures_is_kept_in_bounded_memory() -> None:
    counter = BatchCounter()
    for length in range(1, 3000):
        assert counter.count(ids(1, length)) == Amounts(1, length)
    assert len(counter._known) <= 1024


def read(amounts: Amounts) -> tuple[int | None, ...]:
    return tuple(None if count is None else int(count) for count in amounts)
