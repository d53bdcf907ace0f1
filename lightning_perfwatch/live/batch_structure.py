"""The structure of a batch: batches of one structure hold as many samples and tokens, and keep them in the same places.

Owns which batches have one. Looks at types, shapes and keys only, and at nothing that could run code of the user's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

MOST_PARTS = 64
"""Batches of more parts have no structure: to look through them costs more than it spares."""

_SCALARS = frozenset((str, bytes, int, float, bool, type(None)))


def structure(batch: Any, tensors: list[torch.Tensor]) -> Hashable | None:
    """What is equal for batches that are built alike; None where this can't be told.

    Plain tensors, dicts, lists, tuples and scalars have a structure, and nests of them. ``tensors`` is given the
    tensors of the batch, in the same order for every batch of the structure.
    """
    key: list[object] = []
    parts = [batch]
    for part in parts:  # breadth first: what is in a container goes to the end
        kind = type(part)
        if kind is torch.Tensor:
            if part.is_nested:
                return None
            tensors.append(part)
            key += (part.shape, part.dtype)
        elif kind in _SCALARS:
            key.append(kind)
        elif kind is dict or kind is list or kind is tuple:
            if len(parts) + len(part) > MOST_PARTS:
                return None
            key += (kind, len(part))
            if kind is dict:
                if not all(type(name) in _SCALARS for name in part):
                    return None
                key += part
                parts += part.values()
            else:
                parts += part
        else:
            return None
    return tuple(key)
