"""Which tokens of a batch are no padding.

Owns what marks them and how they are counted: by operations that are launched where the batch lies and whose result
nobody reads here, so the host never waits. Knows nothing of shapes of batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

ATTENTION_MASK = "attention_mask"
LABELS = "labels"
PACKED_BOUNDS = ("cu_seqlens", "cu_seq_lens", "cu_seq_lens_q")
"""Where packed sequences end: flash-attention's name, and those of transformers."""

IGNORED_LABEL = -100
"""``ignore_index`` of ``torch.nn.functional.cross_entropy``: a token with this label has no loss."""


@dataclass(frozen=True, eq=False)
class PaddingMark:
    """The tensor that tells padding and ``by``, the kind of mark that it is."""

    by: str
    tensor: torch.Tensor

    def count(self) -> torch.Tensor:
        """The number of tokens that are no padding, a tensor of one number on the batch's own device."""
        if self.by == ATTENTION_MASK:
            return self.tensor.count_nonzero()  # packed sequences are numbered in it, so it is no sum
        if self.by == LABELS:
            return (self.tensor != IGNORED_LABEL).count_nonzero()
        return self.tensor[-1].clone()  # it is added up later, and the batch is the user's


def find_mark(parts: Mapping[str, Any], ids: torch.Tensor) -> PaddingMark | None:
    """What in ``parts``, the named parts of a batch, tells which of its token ``ids`` are padding.

    In this order: an ``attention_mask`` of whole numbers or booleans in the shape of the ids; the bounds of packed
    sequences, whose last one is the number of tokens; ``labels`` in the shape of the ids, where those that are not
    -100 count (this leaves out the tokens of a masked prompt too). None where none is sure, as with a mask of floats:
    that may be one that is added to the attention's scores.
    """
    mask = _whole(parts.get(ATTENTION_MASK))
    if mask is not None and mask.shape == ids.shape:
        return PaddingMark(ATTENTION_MASK, mask)
    is_flat = ids.dim() == 1 or (ids.dim() == 2 and ids.shape[0] == 1)
    for name in PACKED_BOUNDS if is_flat else ():
        bounds = _whole(parts.get(name))
        if bounds is not None and bounds.dim() == 1 and bounds.numel() > 1:
            return PaddingMark(PACKED_BOUNDS[0], bounds)
    labels = _whole(parts.get(LABELS))
    if labels is not None and labels.shape == ids.shape and labels.dtype.is_signed:
        return PaddingMark(LABELS, labels)
    return None


def _whole(value: Any) -> torch.Tensor | None:
    """``value`` if it is a plain tensor of whole numbers; other kinds of tensor may run code of their own."""
    is_plain = type(value) is torch.Tensor and not value.is_floating_point() and not value.is_complex()
    return value if is_plain else None
