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

from lightning_perfwatch.live.batch import Amounts, BatchCounter, find_amounts

UNKNOWN = Amounts(None, None)


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


CASES: dict[str, tuple[Any, Amounts]] = {
    # what Lightning's own guess got wrong or raised for
    "a scalar beside the ids": ({"n": tensor(3.0), "input_ids": zeros(4, 16)}, Amounts(4, 64)),
    "samples of different lengths": ([zeros(5), zeros(7), zeros(2)], Amounts(3, None)),
    "packed ids": ({"input_ids": zeros(1, 4096), "cu": zeros(9)}, Amounts(1, 4096)),
    "strings": (["a", "b"], Amounts(2, None)),
    "None": (None, UNKNOWN),
    "inputs and targets": ((zeros(4, 16), zeros(4, 16)), Amounts(4, 64)),
    "None beside a tensor": ({"a": zeros(2, 8), "b": None}, Amounts(2, None)),
    # other shapes
    "batch encoding": (BatchEncoding(attention_mask=ones(3, 7), input_ids=ids(3, 7)), Amounts(3, 21)),
    "dataclass": (Sentences(mask=ones(2), tokens=ids(2, 5)), Amounts(2, 10)),
    "named tuple": (Pair(label=zeros(9), input_ids=ids(3, 4)), Amounts(3, 12)),
    "nested dict": ({"text": {"input_ids": ids(2, 8)}, "id": ["x", "y"]}, Amounts(2, 16)),
    "flat packed ids": ({"input_ids": ids(100)}, Amounts(1, 100)),
    "ids under another name": ({"x": ids(4, 6), "y": zeros(4)}, Amounts(4, 24)),
    "ids alone": (ids(4, 6), Amounts(4, 24)),
    "float features": (zeros(4, 6), Amounts(4, None)),
    "a mask is no ids": (zeros(4, 6, dtype=torch.bool), Amounts(4, None)),
    "images and labels": ((zeros(8, 3, 4, 4), ids(8)), Amounts(8, None)),
    "features and scores": ((zeros(8, 16), zeros(8, 1)), Amounts(8, None)),
    "images and their targets": ((zeros(8, 3, 4, 4), [{"boxes": zeros(2, 4)}] * 8), Amounts(8, None)),
    "a scalar in a tuple": ((zeros(4, 3, 8, 8), tensor(1.0)), Amounts(4, None)),
    "a scalar first": ((tensor(1.0), ids(4, 8)), Amounts(4, 32)),
    "ids and their bounds": ((ids(1, 64), ids(9)), Amounts(1, 64)),
    "batches of two loaders": ([(zeros(4, 2), ids(4)), (zeros(2, 2), ids(2))], Amounts(4, None)),
    "prefer the inputs": ({"decoder_input_ids": ids(2, 3), "input_ids": ids(2, 9)}, Amounts(2, 18)),
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
def test_amounts_by_shape(batch: Any, expected: Amounts) -> None:
    assert find_amounts(batch) == expected
    assert BatchCounter().count(batch) == expected


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
    assert find_amounts(lazy) == Amounts(None, None)
    assert lazy.asked == 0
    assert find_amounts(LazyDict(input_ids=torch.zeros(4, 16))) == Amounts(4, 64)


def test_batches_that_hold_themselves_or_are_very_deep_are_unknown() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert find_amounts(endless) == Amounts(None, None)
    knot: dict[str, Any] = {}
    knot["x"] = knot
    assert find_amounts(knot) == Amounts(None, None)


def test_of_a_long_list_only_the_beginning_is_looked_at() -> None:
    class Seen(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("all of it")

    assert find_amounts(Seen([{"x": torch.zeros(3)}] * 50_000)) == Amounts(3, None)
    assert find_amounts(["text"] * 50_000) == Amounts(50_000, None)


def test_a_batch_that_fails_when_it_is_looked_at_is_unknown() -> None:
    class Broken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise RuntimeError("do not touch")

    broken = torch.zeros(2, 3).as_subclass(Broken)
    assert BatchCounter().count(broken) == Amounts(None, None)
