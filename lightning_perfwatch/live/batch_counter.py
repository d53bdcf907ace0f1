"""Counts batches one after the other: those that are built alike are looked at once.

Owns what was learnt of batches before, and the user's choice of how tokens are counted. Knows no shape of a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from traceback import format_exception_only
from typing import Any, NamedTuple, TypeVar

import torch

from lightning_perfwatch.live.batch import UNKNOWN, added, by_key, count_of, find_amounts, split
from lightning_perfwatch.live.batch_structure import structure
from lightning_perfwatch.live.padding import PaddingMark
from lightning_perfwatch.live.tally import Count

log = logging.getLogger(__name__)
Chosen = TypeVar("Chosen")

_MOST_STRUCTURES = 1024


class Amounts(NamedTuple):
    """Samples and tokens of one batch; None where they can't be told.

    A sample is an entry along the first dimension: a row of packed sequences is one. ``tokens`` holds padding too,
    ``nonpadding`` does not. A :data:`~lightning_perfwatch.live.tally.Count` may be a tensor on the batch's device.
    """

    samples: int | None
    tokens: Count
    nonpadding: Count = None


class Taken(NamedTuple):
    """What one batch adds: ``amounts``, and where these are shared by batches that differ in it, its ``nonpadding``."""

    amounts: Amounts
    nonpadding: Count = None
    is_apart: bool = False


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
        """The amounts of ``batch``, never raising."""
        taken = self.take(batch)
        return taken.amounts._replace(nonpadding=taken.nonpadding) if taken.is_apart else taken.amounts

    def take(self, batch: Any) -> Taken:
        """The amounts of ``batch``, never raising, and the same object for batches that are built alike."""
        tensors: list[torch.Tensor] = []
        alike = None if self._tokens is not None else structure(batch, tensors)  # None is never known
        known = self._known.get(alike)
        if known is not None:
            return self._taken(known, tensors)
        amounts, marks = self._count(batch)
        places = None if alike is None else _places(marks, tensors)
        if places is None:
            return Taken(amounts)
        if len(self._known) >= _MOST_STRUCTURES:
            self._known.clear()
        shared = amounts._replace(nonpadding=None)
        known = self._known[alike] = _Known(shared, places, Taken(shared))
        return Taken(known.amounts, amounts.nonpadding, bool(places))

    def take_like(self, batch: Any, amounts: Amounts) -> Taken | None:
        """What :meth:`take` gives for ``batch``, where that has these very ``amounts``; else None, at little cost."""
        if self._tokens is not None:
            return None
        tensors: list[torch.Tensor] = []
        known = self._known.get(structure(batch, tensors))
        if known is None or known.amounts is not amounts:
            return None
        return self._taken(known, tensors) if known.marks else known.taken

    def _taken(self, known: _Known, tensors: Sequence[torch.Tensor]) -> Taken:
        if not known.marks:
            return known.taken
        marks = [PaddingMark(by, tensors[place]) for by, place in known.marks]
        return Taken(known.amounts, self._nonpadding(marks), is_apart=True)

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
            return Amounts(samples, self._chosen(batch, lambda: count_of(choice(batch)))), []
        if choice is not None:
            found = self._chosen(batch, lambda: [by_key(part, choice) for part in parts]) or [UNKNOWN]
        marks = [part.mark for part in found if part.mark is not None]
        if len(marks) < len(found):
            marks = []
        return Amounts(samples, added([part.tokens for part in found]), self._nonpadding(marks)), marks

    def _nonpadding(self, marks: Sequence[PaddingMark]) -> Count:
        self._marks.update(mark.by for mark in marks)
        try:
            return added([mark.count() for mark in marks])
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
    """What batches of one structure count; ``marks`` says of each mark of padding its kind and which tensor it is.

    ``taken`` is what every batch adds where there are none.
    """

    amounts: Amounts
    marks: tuple[tuple[str, int], ...]
    taken: Taken


def _places(marks: Sequence[PaddingMark], tensors: Sequence[torch.Tensor]) -> tuple[tuple[str, int], ...] | None:
    """The kind of each of the ``marks`` and its place among the ``tensors``; None if one has not just one place."""
    places: list[tuple[str, int]] = []
    for mark in marks:
        found = [place for place, tensor in enumerate(tensors) if tensor is mark.tensor]
        if len(found) != 1:  # of inputs that are their own labels the next batch may have two tensors
            return None
        places.append((mark.by, found[0]))
    return tuple(places)
