"""How many samples and tokens a batch holds.

Owns the recognition of batch shapes. Never raises for an unknown one: unknown is None. Reads shapes and types only,
never values, so it never waits for the device: a count of values stays where the batch lies.
"""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch

from lightning_perfwatch.live.padding import PaddingMark, find_mark
from lightning_perfwatch.live.tally import Count

TOKEN_KEYS = ("input_ids", "tokens", "token_ids", "decoder_input_ids")
"""Keys under which token ids are found, in this order (Hugging Face's names first)."""

_SEQUENCE_RANK = 2
_DEEPEST = 3
_MOST_ELEMENTS = 32


class Found(NamedTuple):
    """What the shape of a batch tells: its samples, its tokens, and what marks the padding among these."""

    samples: int | None
    tokens: Count
    mark: PaddingMark | None = None


UNKNOWN = Found(None, None)


def split(batch: Any, loaders: Any) -> list[Any]:
    """The batches in ``batch`` of each of the ``loaders``, a loader or any nest of them; exhausted ones gave None."""
    parts = _split(batch, loaders)
    return [part for part in parts if part is not None] or [None]


def _split(batch: Any, loaders: Any) -> list[Any]:
    if isinstance(loaders, dict) and isinstance(batch, dict):
        return [part for name, inner in loaders.items() if name in batch for part in _split(batch[name], inner)]
    is_nest = isinstance(loaders, (list, tuple)) and isinstance(batch, (list, tuple))
    if is_nest and len(loaders) == len(batch):
        return [part for own, inner in zip(batch, loaders, strict=True) for part in _split(own, inner)]
    return [batch]


def find_amounts(batch: Any, depth: int = 0) -> Found:
    """Samples and tokens by the shape of ``batch``.

    Dicts, ``UserDict`` (``BatchEncoding``), dataclasses and named tuples are searched for token ids of shape
    (samples, tokens per sample); a tensor of whole numbers with two dimensions counts as token ids; so do two tensors
    of the same two-dimensional shape in a sequence (inputs and targets of a language model). Only what is stored is
    looked at: other mappings and sequences may make their values when they are asked, which would change the run.
    Nests are searched three levels deep, and of long containers only the first 32 elements.
    """
    if isinstance(batch, torch.Tensor):
        return Found(_first_length(batch), batch.numel() if _is_token_ids(batch) else None)
    if depth > _DEEPEST:
        return UNKNOWN
    parts = _named_parts(batch)
    if parts is not None:
        return _of_mapping(parts, depth)
    if isinstance(batch, (list, tuple)):
        return _of_sequence(batch, depth)
    return UNKNOWN


def _named_parts(batch: Any) -> dict[str, Any] | None:
    """What is stored in ``batch`` by name, without running a method of its own."""
    if isinstance(batch, UserDict):
        batch = batch.data
    if isinstance(batch, dict):
        return dict(islice(dict.items(batch), _MOST_ELEMENTS))
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        stored = vars(batch)
        return {field.name: stored[field.name] for field in dataclasses.fields(batch) if field.name in stored}
    names = getattr(type(batch), "_fields", None)
    return dict(zip(names, batch, strict=True)) if isinstance(batch, tuple) and isinstance(names, tuple) else None


def _of_mapping(parts: dict[str, Any], depth: int) -> Found:
    for key in TOKEN_KEYS:
        ids = parts.get(key)
        if isinstance(ids, torch.Tensor) and ids.dim() >= 1:
            samples = _first_length(ids) if ids.dim() >= _SEQUENCE_RANK else 1
            return Found(samples, ids.numel(), find_mark(parts, ids))
    found = [find_amounts(part, depth + 1) for part in parts.values()]
    counted = next((part for part in found if part.tokens is not None), UNKNOWN)
    samples = next((part.samples for part in found if part.samples is not None), None)
    return Found(samples, counted.tokens, counted.mark)


def _of_sequence(batch: list[Any] | tuple[Any, ...], depth: int) -> Found:
    first = batch[:_MOST_ELEMENTS]
    tensors = [part for part in first if isinstance(part, torch.Tensor)]
    if not tensors:
        if all(isinstance(part, (str, bytes, int, float)) for part in first):
            return Found(len(batch) or None, None)
        nested = [find_amounts(part, depth + 1) for part in first]
        return next((found for found in nested if found.samples is not None), UNKNOWN)
    sized = [tensor for tensor in tensors if tensor.dim()]
    if not sized:
        return UNKNOWN
    is_list_of_samples = len(sized) == len(first) and len({tensor.dim() for tensor in sized}) == 1
    if is_list_of_samples and len({tensor.shape[0] for tensor in sized}) > 1:
        return Found(len(batch), None)
    return Found(_first_length(sized[0]), _tokens_of(sized))


def by_key(batch: Any, key: str) -> Found:
    """The user's key: the elements of that tensor, or the number that is stored there."""
    value = batch[key] if isinstance(batch, Mapping) else getattr(batch, key)
    if isinstance(value, torch.Tensor) and value.dim():
        return Found(None, value.numel(), find_mark(_named_parts(batch) or {}, value))
    return Found(None, count_of(value))


def _tokens_of(tensors: Sequence[torch.Tensor]) -> int | None:
    first = tensors[0]
    is_pair = len(tensors) == 2 and first.dim() == _SEQUENCE_RANK and first.shape == tensors[1].shape
    return first.numel() if _is_token_ids(first) or is_pair else None


def _is_token_ids(tensor: torch.Tensor) -> bool:
    whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
    return whole and tensor.dim() == _SEQUENCE_RANK


def _first_length(tensor: torch.Tensor) -> int | None:
    return int(tensor.shape[0]) if tensor.dim() else None


def count_of(value: Any) -> int | torch.Tensor:
    """A number as an int, a tensor of one number as it is.

    Raises:
        ValueError: it is no whole number. TypeError: it is no number at all.
    """
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.dtype is torch.bool or value.is_complex():
            raise ValueError(f"a number of tokens is one whole number, got a tensor of shape {tuple(value.shape)}")
        return value
    if isinstance(value, bool) or int(value) != value:
        raise ValueError(f"a number of tokens is a whole number, got {value!r}")
    return int(value)


def added(counts: Sequence[Count]) -> Count:
    """The sum, wherever the counts lie; None if one of them is, or if there is none."""
    total: Count = None
    for count in counts:
        if count is None:
            return None
        total = count if total is None else total + count
    return total
