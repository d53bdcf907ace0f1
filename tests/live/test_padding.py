from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import ones, tensor, zeros

from lightning_perfwatch.live.padding import find_mark


def ids(*shape: int) -> torch.Tensor:
    return zeros(*shape, dtype=torch.long)


def marked(parts: dict[str, Any], of: torch.Tensor) -> tuple[str, int] | None:
    mark = find_mark(parts, of)
    return None if mark is None else (mark.by, int(mark.count()))


MASK = tensor([[1, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("parts", "of", "expected"),
    [
        ({"attention_mask": MASK}, ids(2, 3), ("attention_mask", 3)),
        ({"attention_mask": MASK.bool()}, ids(2, 3), ("attention_mask", 3)),
        ({"attention_mask": tensor([[1, 2, 2, 3, 0]])}, ids(1, 5), ("attention_mask", 4)),
        ({"attention_mask": tensor([1, 1, 0])}, ids(3), ("attention_mask", 2)),
        ({"labels": tensor([[5, -100, 7], [-100, -100, -100]])}, ids(2, 3), ("labels", 2)),
        ({"labels": tensor([[5, 6, 7]])}, ids(1, 3), ("labels", 3)),
        ({"attention_mask": MASK, "labels": ids(2, 3) - 100}, ids(2, 3), ("attention_mask", 3)),
        ({"cu_seqlens": tensor([0, 10, 25], dtype=torch.int32)}, ids(1, 32), ("cu_seqlens", 25)),
        ({"cu_seq_lens_q": tensor([0, 10, 32])}, ids(32), ("cu_seqlens", 32)),
    ],
)
def test_what_tells_padding_and_how_many_tokens_are_none(
    parts: dict[str, Any], of: torch.Tensor, expected: tuple[str, int]
) -> None:
    assert marked(parts, of) == expected


@pytest.mark.parametrize(
    ("parts", "of"),
    [
        ({}, ids(2, 3)),
        ({"attention_mask": ones(2, 3)}, ids(2, 3)),
        ({"attention_mask": ids(2, 1, 3, 3)}, ids(2, 3)),
        ({"attention_mask": [[1, 0]]}, ids(1, 2)),
        ({"labels": ids(2)}, ids(2, 3)),
        ({"labels": zeros(2, 3)}, ids(2, 3)),
        ({"labels": zeros(2, 3, dtype=torch.uint8)}, ids(2, 3)),
        ({"cu_seqlens": tensor([0, 3])}, ids(2, 3)),
        ({"cu_seqlens": tensor([0])}, ids(1, 3)),
        ({"cu_seqlens": tensor([[0, 3]])}, ids(1, 3)),
        ({"padding_mask": MASK}, ids(2, 3)),
    ],
    ids=str,
)
def test_where_nothing_is_sure_nothing_is_said(parts: dict[str, Any], of: torch.Tensor) -> None:
    assert find_mark(parts, of) is None


def test_a_tensor_with_code_of_its_own_is_not_asked() -> None:
    class Mine(torch.Tensor):
        pass

    assert find_mark({"attention_mask": ones(2, 3, dtype=torch.long).as_subclass(Mine)}, ids(2, 3)) is None


def test_counting_reads_no_value() -> None:
    with torch.device("meta"):
        for parts in ({"attention_mask": ids(2, 3)}, {"labels": ids(2, 3)}, {"cu_seqlens": ids(3)}):
            mark = find_mark(parts, ids(1, 3) if "cu_seqlens" in parts else ids(2, 3))
            assert mark is not None and mark.count().dim() == 0
