"""A sum of counts, some of which still lie on a device.

Owns the rule that such a count is added where it lies and read only when the sum is asked for. Knows no batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Count = int | torch.Tensor | None
"""A number, a tensor of one whole number, or None where it can't be told."""


class Tally:
    """Adds up counts without waiting for a device; one unknown count makes the sum unknown.

    ``add`` launches at most one small kernel. ``take`` reads one number from each device that has counted, which waits
    for it: to be called where the device has been waited for anyway.
    """

    def __init__(self) -> None:
        self._sum: int | None = 0
        self._on_device: dict[torch.device, torch.Tensor] = {}

    def add(self, count: Count, times: int = 1) -> None:
        """One more count, or the same one several ``times``."""
        if self._sum is None:
            return
        if count is None:
            self._sum = None
            self._on_device.clear()
        elif isinstance(count, int):
            self._sum += count * times
        else:
            known = self._on_device.get(count.device)
            count = count.detach().reshape(())
            count = count if count.is_floating_point() else count.to(torch.int64)  # 2**31 tokens are soon together
            count = count if times == 1 else count * times
            # never in place: a count may be a view into the user's batch
            self._on_device[count.device] = count + 0 if known is None else known + count

    def add_all(self, counts: Sequence[Count]) -> None:
        """Several counts at once; those on one device by two small kernels."""
        tensors = [count.detach().reshape(()) for count in counts if isinstance(count, torch.Tensor)]
        if len(tensors) == len(counts) > 1 and len({(count.device, count.dtype) for count in tensors}) == 1:
            self.add(torch.stack(tensors).sum())
            return
        for count in counts:
            self.add(count)

    def take(self) -> int | None:
        """The sum since the last call; None where a count was unknown or is no whole number."""
        total, self._sum = self._sum, 0
        counts, self._on_device = list(self._on_device.values()), {}
        for count in counts:
            value = count.item()
            if total is None or not math.isfinite(value) or int(value) != value:
                return None
            total += int(value)
        return total
