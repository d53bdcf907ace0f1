"""How many samples and tokens a batch holds.

Owns the recognition of batch shapes. Never raises for an unknown one: unknown is None. Reads shapes and types only,
never values, so it never waits for the device: a count of values stays where the batch lies.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import UserDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from traceback import format_exception_only
from typing import Any, NamedTuple, TypeVar

import torch

from lightning_perfwatch.live.batch_structure import structure
from lightning_perfwatch.live.padding import PaddingMark, find_mark
from lightning_perfwatch.live.tally import Count

log = logging.getLogger(__name__)
Chosen = TypeVar("Chosen")

TOKEN_KEYS = ("input_ids", "tokens", "token_ids", "decoder_input_ids")
"""Keys under which token ids are found, in this order (Hugging Face's names first)."""

_SEQUENCE_RANK = 2
_DEEPEST = 3
_MOST_ELEMENTS = 32
_MOST_STRUCTURES = 1024


class Amounts(NamedTuple):
    """Samples and tokens of one batch; None where they can't be told.

    A sample is an entry along the first dimension: a row of packed sequences is one. ``tokens`` holds padding too,
    ``nonpadding`` does not. A :data:`~lightning_perfwatch.live.tally.Count` may be a tensor on the batch's device.
    """

    samples: int | None
    tokens: Count
    nonpadding: Count = None


class Found(NamedTuple):
    """What the shape of a batch tells: its samples, its tokens, and what marks the padding among these."""

    samples: int | None
    tokens: Count
    mark: PaddingMark | None = None


UNKNOWN = Found(None, None)


class BatchCounter:
    """Counts batches: by shape, or tokens by the user's key or callable.

    A callable that fails or returns no whole number makes tokens unknown and is warned about once. It may return a
    tensor of one number, which is read where the device is waited for anyway. Its number stands alone: padding is not
    looked for then.

    Args:
        tokens: None, a key or a callable.
        loaders: the training loaders as the Trainer has them. Where they are a dict, list or tuple, a batch has the
            same form with one batch of each, and these are added up.
    """

    def __init__(self, tokens: str | Callable[[Any], Any] | None = None, loaders: Any = None) -> None:
        self._tokens = tokens
        self._loaders = loaders
        self._complained = False
        self._marks: set[str] = set()
        self._known: dict[Hashable, _Known] = {}

    @property
    def is_chosen(self) -> bool:
        """Whether the user has chosen how tokens are counted."""
        return self._tokens is not None

    @property
    def nonpadding_by(self) -> str | None:
        """The kind of mark by which padding was told; None where it was not, or by several kinds."""
        return next(iter(self._marks)) if len(self._marks) == 1 else None

    def count(self, batch: Any) -> Amounts:
        """The amounts of ``batch``, never raising; the same object for batches that count alike, where it can be."""
        if self._tokens is not None:
            return self._count(batch)[0]
        tensors: list[torch.Tensor] = []
        alike = structure(batch, tensors)
        if alike is None:
            return self._count(batch)[0]
        known = self._known.get(alike)
        if known is None:
            amounts, marks = self._count(batch)
            places = _places(marks, tensors)
            if places is not None:
                if len(self._known) >= _MOST_STRUCTURES:
                    self._known.clear()
                self._known[alike] = _Known(amounts._replace(nonpadding=None), places)
            return amounts
        if not known.marks:
            return known.amounts
        marks = [PaddingMark(by, tensors[place]) for by, place in known.marks]
        return known.amounts._replace(nonpadding=self._nonpadding(marks))

    def known(self, batch: Any) -> Amounts | None:
        """What :meth:`count` gives for ``batch``, where its structure tells that and was met before; else None."""
        if self._tokens is not None:
            return None
        alike = structure(batch, [])
        known = None if alike is None else self._known.get(alike)
        return None if known is None or known.marks else known.amounts

    def _count(self, batch: Any) -> tuple[Amounts, list[PaddingMark]]:
        """The amounts of ``batch``, and what marks its padding if they hold that."""
        try:
            parts = split(batch, self._loaders)
            found = [find_amounts(part) for part in parts]
        except Exception:  # noqa: BLE001 - a user's batch may fail in any way when it is looked at
            parts, found = [batch], [UNKNOWN]
        known = [part.samples for part in found if part.samples is not None]
        samples = sum(known) if len(known) == len(found) else None
        choice = self._tokens
        if callable(choice):
            return Amounts(samples, self._chosen(batch, lambda: _count_of(choice(batch)))), []
        if choice is not None:
            found = self._chosen(batch, lambda: [_by_key(part, choice) for part in parts]) or [UNKNOWN]
        marks = [part.mark for part in found if part.mark is not None]
        if len(marks) < len(found):
            marks = []
        return Amounts(samples, _sum([part.tokens for part in found]), self._nonpadding(marks)), marks

    def _nonpadding(self, marks: Sequence[PaddingMark]) -> Count:
        self._marks.update(mark.by for mark in marks)
        try:
            return _sum([mark.count() for mark in marks])
        except Exception:  # noqa: BLE001 - a tensor in a layout or on a device that can't count
            return None

    def _chosen(self, batch: Any, count: Callable[[], Chosen]) -> Chosen | None:
        """What the user's choice gives; None and one warning where it fails."""
        try:
            return count()
        except Exception as error:  # noqa: BLE001 - the user's own function may fail in any way
            if not self._complained:
                self._complained = True
                log.warning(
                    "PerfWatch can't count tokens with tokens=%r on a batch of type %s (%s): tokens per second stay "
                    "unknown.",
                    self._tokens, type(batch).__name__, "".join(format_exception_only(error)).strip(),
                )  # fmt: skip
            return None


class _Known(NamedTuple):
    """What batches of one structure count; ``marks`` says of each mark of padding its kind and which tensor it is."""

    amounts: Amounts
    marks: tuple[tuple[str, int], ...]


def _places(marks: Sequence[PaddingMark], tensors: Sequence[torch.Tensor]) -> tuple[tuple[str, int], ...] | None:
    """The kind of each of the ``marks`` and its place among the ``tensors``; None if one has not just one place."""
    places: list[tuple[str, int]] = []
    for mark in marks:
        found = [place for place, tensor in enumerate(tensors) if tensor is mark.tensor]
        if len(found) != 1:  # of inputs that are their own labels the next batch may have two tensors
            return None
        places.append((mark.by, found[0]))
    return tuple(places)


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


def _by_key(batch: Any, key: str) -> Found:
    """The user's key: the elements of that tensor, or the number that is stored there."""
    value = batch[key] if isinstance(batch, Mapping) else getattr(batch, key)
    if isinstance(value, torch.Tensor) and value.dim():
        return Found(None, value.numel(), find_mark(_named_parts(batch) or {}, value))
    return Found(None, _count_of(value))


def _tokens_of(tensors: Sequence[torch.Tensor]) -> int | None:
    first = tensors[0]
    is_pair = len(tensors) == 2 and first.dim() == _SEQUENCE_RANK and first.shape == tensors[1].shape
    return first.numel() if _is_token_ids(first) or is_pair else None


def _is_token_ids(tensor: torch.Tensor) -> bool:
    whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
    return whole and tensor.dim() == _SEQUENCE_RANK


def _first_length(tensor: torch.Tensor) -> int | None:
    return int(tensor.shape[0]) if tensor.dim() else None


def _count_of(value: Any) -> int | torch.Tensor:
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


def _sum(counts: Sequence[Count]) -> Count:
    """The sum, wherever the counts lie; None if one of them is, or if there is none."""
    total: Count = None
    for count in counts:
        if count is None:
            return None
        total = count if total is None else total + count
    return total
