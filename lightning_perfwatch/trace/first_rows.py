"""Finds the row of an id in a column of ids; knows no trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Ints
from lightning_perfwatch.trace.event import ABSENT

# Ids that a profiler counts up are looked up in a table, which may be this many times longer than the column.
_MOST_GAPS = 4


@dataclass(frozen=True, eq=False)
class FirstRows:
    """The first row of each positive id: in a table that begins with `least`, or, where ids lie far apart, sorted."""

    table: Ints | None
    least: int
    ids: Ints
    first: Ints

    @classmethod
    def of(cls, ids: Ints) -> FirstRows:
        """The rows of a column of ids."""
        known = np.flatnonzero(ids > 0)
        numbers = ids[known]
        least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        if most - least < _MOST_GAPS * len(numbers):
            table = np.full(most - least + 1, ABSENT, np.int64)
            table[numbers[::-1] - least] = known[::-1]  # of equal ids the first is written last
            return cls(table, least, numbers[:0], known[:0])
        numbers, first = np.unique(numbers, return_index=True)
        return cls(None, least, numbers, known[first])

    def rows(self, ids: Ints) -> Ints:
        """For each id its first row, -1 where it has none."""
        if self.table is not None:
            at = ids - self.least
            inside = (at >= 0) & (at < len(self.table))
            return np.where(inside, self.table[np.where(inside, at, 0)], ABSENT)
        if len(self.ids) == 0:
            return np.full(len(ids), ABSENT, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.first[at], ABSENT)
