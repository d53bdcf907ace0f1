from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import ones, tensor, zeros

from lightning_perfwatch.live.batch import UNKNOWN, Found, find_amounts, split
from lightning_perfwatch.live.batch_counter import Amounts, BatchCounter


class BatchEncoding(UserDict[str, Any]):
    """Hugging Face's batches are such a mapping and no dict."""


class Pair(NamedTuple):
    label: torch.Tensor
    input_ids: torch.Tensor


@dataclass
class Sentences:
    mask: torch.Tensor
    tokens: torch.Tensor


def ids(*shape: int) -> torch.Tensor:
    return zeros(*shape, dtype=torch.long)


CASES: dict[str, tuple[Any, Found]] = {
    # what Lightning's own guess got wrong or raised for
    "a scalar beside the ids": ({"n": tensor(3.0), "input_ids": zeros(4, 16)}, Found(4, 64)),
    "samples of different lengths": ([zeros(5), zeros(7), zeros(2)], Found(3, None)),
    "packed ids": ({"input_ids": zeros(1, 4096), "cu": zeros(9)}, Found(1, 4096)),
    "strings": (["a", "b"], Found(2, None)),
    "None": (None, UNKNOWN),
    "inputs and targets": ((zeros(4, 16), zeros(4, 16)), Found(4, 64)),
    "None beside a tensor": ({"a": zeros(2, 8), "b": None}, Found(2, None)),
    # other shapes
    "batch encoding": (BatchEncoding(attention_mask=ones(3, 7), input_ids=ids(3, 7)), Found(3, 21)),
    "dataclass": (Sentences(mask=ones(2), tokens=ids(2, 5)), Found(2, 10)),
    "named tuple": (Pair(label=zeros(9), input_ids=ids(3, 4)), Found(3, 12)),
    "nested dict": ({"text": {"input_ids": ids(2, 8)}, "id": ["x", "y"]}, Found(2, 16)),
    "flat packed ids": ({"input_ids": ids(100)}, Found(1, 100)),
    "ids under another name": ({"x": ids(4, 6), "y": zeros(4)}, Found(4, 24)),
    "ids alone": (ids(4, 6), Found(4, 24)),
    "float features": (zeros(4, 6), Found(4, None)),
    "a mask is no ids": (zeros(4, 6, dtype=torch.bool), Found(4, None)),
    "images and labels": ((zeros(8, 3, 4, 4), ids(8)), Found(8, None)),
    "features and scores": ((zeros(8, 16), zeros(8, 1)), Found(8, None)),
    "images and their targets": ((zeros(8, 3, 4, 4), [{"boxes": zeros(2, 4)}] * 8), Found(8, None)),
    "a scalar in a tuple": ((zeros(4, 3, 8, 8), tensor(1.0)), Found(4, None)),
    "a scalar first": ((tensor(1.0), ids(4, 8)), Found(4, 32)),
    "ids and their bounds": ((ids(1, 64), ids(9)), Found(1, 64)),
    "batches of two loaders": ([(zeros(4, 2), ids(4)), (zeros(2, 2), ids(2))], Found(4, None)),
    "prefer the inputs": ({"decoder_input_ids": ids(2, 3), "input_ids": ids(2, 9)}, Found(2, 18)),
    # nothing to be told
    "empty list": ([], UNKNOWN),
    "empty dict": ({}, UNKNOWN),
    "scalar": (tensor(3.0), UNKNOWN),
    "scalars": ([tensor(1.0), tensor(2.0)], UNKNOWN),
    "string": ("a sentence", UNKNOWN),
    "number": (7, UNKNOWN),
    "a dataclass itself": (Sentences, UNKNOWN),
    "array": (np.zeros((4, 4)), UNKNOWN),
    "objects": ([object(), object()], UNKNOWN),
}


@pytest.mark.parametrize(("batch", "expected"), CASES.values(), ids=CASES.keys())
def test_amounts_by_shape(batch: Any, expected: Found) -> None:
    assert find_amounts(batch) == expected
    assert BatchCounter().count(batch) == Amounts(expected.samples, expected.tokens)


def test_values_are_never_read() -> None:
    with torch.device("meta"):  # where there are none
        batch = {"input_ids": ids(4, 16), "n": tensor(3.0)}

    assert BatchCounter().count(batch) == Amounts(4, 64)
    assert BatchCounter("input_ids").count(batch) == Amounts(4, 64)


@pytest.mark.parametrize(
    ("tokens", "batch", "expected"),
    [
        ("useful", {"input_ids": ids(4, 16), "useful": ids(4, 9)}, 36),
        ("useful", {"input_ids": ids(4, 16), "useful": 11}, 11),
        ("useful", BatchEncoding(input_ids=ids(4, 16), useful=ids(4, 9)), 36),
        ("mask", Sentences(mask=ones(7), tokens=ids(4, 16)), 7),
        ("label", Pair(label=zeros(5), input_ids=ids(4, 16)), 5),
        (lambda batch: batch["input_ids"].numel() // 2, {"input_ids": ids(4, 16)}, 32),
        (lambda _: np.int64(5), {"input_ids": ids(4, 16)}, 5),
        (lambda _: 6.0, {"input_ids": ids(4, 16)}, 6),
    ],
)
def test_the_users_choice_counts_the_tokens_and_the_shape_the_samples(
    tokens: Any, batch: Any, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert BatchCounter(tokens).count(batch) == Amounts(4, expected)
    assert not caplog.records


@pytest.mark.parametrize(
    "tokens",
    [
        "no such key",
        "words",
        lambda _: 1 / 0,
        lambda _: None,
        lambda _: "12 or so",
        lambda _: 1.5,
        lambda _: float("nan"),
        lambda _: True,
        lambda: 3,
    ],
)
def test_a_choice_that_fails_is_warned_about_once_and_leaves_tokens_unknown(
    tokens: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    counter = BatchCounter(tokens)

    counts = [counter.count({"input_ids": ids(4, 16), "words": ["a", "b"]}) for _ in range(3)]

    assert counts == [Amounts(4, None)] * 3
    (record,) = caplog.records
    assert "can't count tokens" in record.getMessage()
    assert "on a batch of type dict" in record.getMessage()


def test_a_key_on_a_batch_without_names_is_a_choice_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    assert BatchCounter("input_ids").count((ids(4, 16), ids(4, 16))) == Amounts(4, None)
    assert "has no attribute 'input_ids'" in caplog.text


class Lazy(Mapping[str, torch.Tensor]):
    """Makes its values when it is asked for them, as a lazy dataset does."""

    def __init__(self) -> None:
        self.asked = 0

    def __getitem__(self, key: str) -> torch.Tensor:
        self.asked += 1
        return torch.rand(2, 8)

    def __iter__(self) -> Iterator[str]:
        self.asked += 1
        return iter(("input_ids", "y"))

    def __len__(self) -> int:
        return 2


class LazyDict(dict[str, torch.Tensor]):
    def __getitem__(self, key: str) -> torch.Tensor:
        raise AssertionError("asked")

    def get(self, *_: Any) -> Any:
        raise AssertionError("asked")

    def values(self) -> Any:
        raise AssertionError("asked")


def test_a_batch_that_makes_its_values_on_demand_is_not_asked_for_them() -> None:
    lazy = Lazy()
    assert find_amounts(lazy) == Found(None, None)
    assert lazy.asked == 0
    assert find_amounts(LazyDict(input_ids=torch.zeros(4, 16))) == Found(4, 64)


def test_batches_that_hold_themselves_or_are_very_deep_are_unknown() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert find_amounts(endless) == Found(None, None)
    knot: dict[str, Any] = {}
    knot["x"] = knot
    assert find_amounts(knot) == Found(None, None)


def test_of_a_long_list_only_the_beginning_is_looked_at() -> None:
    class Seen(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("all of it")

    assert find_amounts(Seen([{"x": torch.zeros(3)}] * 50_000)) == Found(3, None)
    assert find_amounts(["text"] * 50_000) == Found(50_000, None)


def test_a_batch_that_fails_when_it_is_looked_at_is_unknown() -> None:
    class Broken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise RuntimeError("do not touch")

    broken = torch.zeros(2, 3).as_subclass(Broken)
    assert BatchCounter().count(broken) == Amounts(None, None)


def padded(*lengths: int, size: int = 6) -> dict[str, torch.Tensor]:
    mask = torch.arange(size) < tensor(lengths)[:, None]
    return {"input_ids": ids(len(lengths), size), "attention_mask": mask}


def read(amounts: Amounts) -> tuple[int | None, ...]:
    return tuple(None if count is None else int(count) for count in amounts)


@pytest.mark.parametrize(
    ("tokens", "batch", "expected"),
    [
        (None, padded(6, 2), (2, 12, 8)),
        (None, BatchEncoding(padded(1, 2)), (2, 12, 3)),
        (None, {"text": padded(6, 2), "image": zeros(2, 3, 4, 4)}, (2, 12, 8)),
        (None, {"input_ids": ids(1, 4096), "cu_seqlens": tensor([0, 1000, 4000])}, (1, 4096, 4000)),
        (None, {"input_ids": ids(2, 2), "labels": tensor([[1, -100], [1, 1]])}, (2, 4, 3)),
        ("input_ids", padded(6, 2), (2, 12, 8)),
        ("text", {**padded(6, 2), "text": ids(2, 9)}, (2, 18, None)),
        ("n", {**padded(6, 2), "n": tensor(7)}, (2, 7, None)),
        (lambda batch: batch["attention_mask"].sum(), padded(6, 2), (2, 8, None)),
    ],
)
def test_tokens_and_those_that_are_no_padding_are_two_figures(
    tokens: Any, batch: Any, expected: tuple[int | None, ...]
) -> None:
    assert read(BatchCounter(tokens).count(batch)) == expected


def test_how_padding_was_told_is_said_unless_batches_differ_in_it() -> None:
    counter, told = BatchCounter(), []
    for batch in (ids(2, 2), padded(1, 2), {"input_ids": ids(2, 2), "labels": ids(2, 2)}):
        counter.count(batch)
        told.append(counter.nonpadding_by)

    assert told == [None, "attention_mask", None]


@pytest.mark.parametrize("value", [ids(3), torch.ones((), dtype=torch.bool)])
def test_a_callable_may_return_a_tensor_of_one_number_only(value: torch.Tensor) -> None:
    assert BatchCounter(lambda _: value).count(padded(1)) == Amounts(1, None)


@pytest.mark.parametrize(
    ("loaders", "batch", "parts"),
    [
        (None, {"a": 1, "b": 2}, [{"a": 1, "b": 2}]),
        ({"a": "A", "b": "B"}, {"a": 1, "b": 2}, [1, 2]),
        (["A", "B"], [1, 2], [1, 2]),
        (("A", {"b": "B", "c": ["C"]}), (1, {"b": 2, "c": [3]}), [1, 2, 3]),
        (["A", "B"], [1, None], [1]),
        (["A", "B"], [None, None], [None]),
        (["A", "B"], [1, 2, 3], [[1, 2, 3]]),
        ({"a": "A"}, [1], [[1]]),
    ],
)
def test_a_batch_of_several_loaders_holds_one_of_each(loaders: Any, batch: Any, parts: list[Any]) -> None:
    assert split(batch, loaders) == parts


def test_the_batches_of_several_loaders_are_added_up() -> None:
    batch = {"a": padded(6, 2), "b": padded(1, 1, 1)}
    assert read(BatchCounter(None, {"a": 0, "b": 0}).count(batch)) == (5, 30, 11)
    assert read(BatchCounter("input_ids", {"a": 0, "b": 0}).count(batch)) == (5, 30, 11)
    one_loader = BatchCounter().count(batch)
    assert read(one_loader) == (2, 12, 8)


def test_one_loader_whose_tokens_can_not_be_told_makes_the_sum_unknown() -> None:
    batch = [padded(6, 2), zeros(3, 7)]
    assert read(BatchCounter(None, [0, 0]).count(batch)) == (5, None, None)
