"""How many samples and tokens a batch holds.

Owns the recognition of batch shapes. Never raises for an unknown one: unknown is None. Reads shapes and types only,
never values, so it never waits for the device.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from traceback import format_exception_only
from typing import Any, NamedTuple

import torch

log = logging.getLogger(__name__)

TOKEN_KEYS = ("input_ids", "tokens", "token_ids", "decoder_input_ids")
"""Keys under which token ids are found, in this order (Hugging Face's names first)."""

_SEQUENCE_RANK = 2
_DEEPEST = 3
_MOST_ELEMENTS = 32


class Amounts(NamedTuple):
    """Samples and tokens of one batch; None where they can't be told."""

    samples: int | None
    tokens: int | None


class BatchCounter:
    """Counts batches: by shape, or tokens by the user's ``key`` or callable.

    A callable that fails or returns no whole number makes tokens unknown and is warned about once.
    """

    def __init__(self, tokens: str | Callable[[Any], int] | None = None) -> None:
        self._tokens = tokens
        self._complained = False

    def count(self, batch: Any) -> Amounts:
        """The amounts of ``batch``, never raising."""
        try:
            found = find_amounts(batch)
        except Exception:  # noqa: BLE001 - a user's batch may fail in any way when it is looked at
            found = Amounts(None, None)
        if self._tokens is None:
            return found
        return Amounts(found.samples, self._chosen_tokens(batch))

    def _chosen_tokens(self, batch: Any) -> int | None:
        try:
            if callable(self._tokens):
                return _whole_number(self._tokens(batch))
            value = batch[self._tokens] if isinstance(batch, Mapping) else getattr(batch, str(self._tokens))
            return value.numel() if isinstance(value, torch.Tensor) else _whole_number(value)
        except Exception as error:  # noqa: BLE001 - the user's own function may fail in any way
            if not self._complained:
                self._complained = True
                log.warning(
                    "PerfWatch can't count tokens with tokens=%r on a batch of type %s (%s): tokens per second stay "
                    "unknown.",
                    self._tokens, type(batch).__name__, "".join(format_exception_only(error)).strip(),
                )  # fmt: skip
            return None


def find_amounts(batch: Any, depth: int = 0) -> Amounts:
    """Samples and tokens by the shape of ``batch``.

    Dicts, ``UserDict`` (``BatchEncoding``), dataclasses and named tuples are searched for token ids of shape
    (samples, tokens per sample); a tensor of whole numbers with two dimensions counts as token ids; so do two tensors
    of the same two-dimensional shape in a sequence (inputs and targets of a language model). Only what is stored is
    looked at: other mappings and sequences may make their values when they are asked, which would change the run.
    Nests are searched three levels deep, and of long containers only the first 32 elements.
    """
    if isinstance(batch, torch.Tensor):
        return Amounts(_first_length(batch), batch.numel() if _is_token_ids(batch) else None)
    if depth > _DEEPEST:
        return Amounts(None, None)
    parts = _named_parts(batch)
    if parts is not None:
        return _of_mapping(parts, depth)
    if isinstance(batch, (list, tuple)):
        return _of_sequence(batch, depth)
    return Amounts(None, None)


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


def _of_mapping(parts: dict[str, Any], depth: int) -> Amounts:
    for key in TOKEN_KEYS:
        ids = parts.get(key)
        if isinstance(ids, torch.Tensor) and ids.dim() >= 1:
            samples = _first_length(ids) if ids.dim() >= _SEQUENCE_RANK else 1
            return Amounts(samples, ids.numel())
    found = [find_amounts(part, depth + 1) for part in parts.values()]
    tokens = next((amounts.tokens for amounts in found if amounts.tokens is not None), None)
    samples = next((amounts.samples for amounts in found if amounts.samples is not None), None)
    return Amounts(samples, tokens)


def _of_sequence(batch: list[Any] | tuple[Any, ...], depth: int) -> Amounts:
    first = batch[:_MOST_ELEMENTS]
    tensors = [part for part in first if isinstance(part, torch.Tensor)]
    if not tensors:
        if all(isinstance(part, (str, bytes, int, float)) for part in first):
            return Amounts(len(batch) or None, None)
        nested = [find_amounts(part, depth + 1) for part in first]
        return next((amounts for amounts in nested if amounts.samples is not None), Amounts(None, None))
    sized = [tensor for tensor in tensors if tensor.dim()]
    if not sized:
        return Amounts(None, None)
    is_list_of_samples = len(sized) == len(first) and len({tensor.dim() for tensor in sized}) == 1
    if is_list_of_samples and len({tensor.shape[0] for tensor in sized}) > 1:
        return Amounts(len(batch), None)
    return Amounts(_first_length(sized[0]), _tokens_of(sized))


def _tokens_of(tensors: Sequence[torch.Tensor]) -> int | None:
    first = tensors[0]
    is_pair = len(tensors) == 2 and first.dim() == _SEQUENCE_RANK and first.shape == tensors[1].shape
    return first.numel() if _is_token_ids(first) or is_pair else None


def _is_token_ids(tensor: torch.Tensor) -> bool:
    whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
    return whole and tensor.dim() == _SEQUENCE_RANK


def _first_length(tensor: torch.Tensor) -> int | None:
    return int(tensor.shape[0]) if tensor.dim() else None


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise ValueError(f"a number of tokens is a whole number, got {value!r}")
    return int(value)
