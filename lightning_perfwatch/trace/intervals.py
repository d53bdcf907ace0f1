"""Set algebra on time intervals, as float64 arrays of shape (n, 2) with one [start, end) per row.

It knows no trace: only numbers. Results are unions: sorted, disjoint, without empty rows.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


def pairs(start: Floats, end: Floats) -> Floats:
    """Intervals of shape (n, 2) from their starts and ends."""
    return np.column_stack((start, end)).astype(np.float64, copy=False)


def union(intervals: Floats) -> Floats:
    """The union of any intervals (unsorted and overlapping ones too); touching ones become one."""
    rows = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    start, end = rows[:, 0], rows[:, 1]
    if not np.all(lasts := end > start):
        rows = rows[lasts]
        start, end = rows[:, 0], rows[:, 1]
    if np.all(start[1:] > end[:-1]):  # a union already, or no row
        return rows
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    first = np.flatnonzero(np.concatenate(([True], start[1:] > reached[:-1])))
    last = np.concatenate((first[1:] - 1, [len(start) - 1]))
    return pairs(start[first], reached[last])


def intersect(a: Floats, b: Floats) -> Floats:
    """The time covered by both."""
    first, second = union(a), union(b)
    if len(first) == 0 or len(second) == 0:
        return np.empty((0, 2))
    if len(first) == 1 or len(second) == 1:
        one, others = (first, second) if len(first) == 1 else (second, first)
        return clip(others, *one[0])
    starts = np.concatenate((first[:, 0], second[:, 0]))
    ends = np.concatenate((first[:, 1], second[:, 1]))
    times = np.concatenate((ends, starts))
    change = np.concatenate((np.full(len(ends), -1), np.full(len(starts), 1)))
    # The sort is stable and ends were put first, so intervals that only touch never overlap.
    order = np.argsort(times, kind="stable")
    depth = np.cumsum(change[order])
    at = np.flatnonzero(depth[:-1] == 2)
    return union(pairs(times[order][at], times[order][at + 1]))


def subtract(a: Floats, b: Floats) -> Floats:
    """The time covered by `a` and not by `b`."""
    holes = union(b)
    if len(holes) == 0:
        return union(a)
    edges = np.concatenate(([-np.inf], holes.ravel(), [np.inf]))
    return intersect(a, edges.reshape(-1, 2))


def clip(intervals: Floats, start: float, end: float) -> Floats:
    """The union of the intervals inside [start, end)."""
    return union(np.clip(np.asarray(intervals, dtype=np.float64).reshape(-1, 2), start, end))


def total(intervals: Floats) -> float:
    """Summed length of a union (pass overlapping intervals through `union` first)."""
    rows = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    return float(np.sum(rows[:, 1] - rows[:, 0]))


def divided_lengths(intervals: Floats) -> Floats:
    """The length of each interval, each instant divided among all that cover it: they add up to the union's."""
    rows = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    if len(rows) == 0:
        return np.zeros(0)
    times, where = np.unique(rows, return_inverse=True)
    first, last = where.reshape(-1, 2).T
    depth = np.cumsum(np.bincount(first, minlength=len(times)) - np.bincount(last, minlength=len(times)))[:-1]
    parts = np.divide(np.diff(times), depth, out=np.zeros(len(depth)), where=depth > 0)
    before = np.append(0.0, np.cumsum(parts))
    return np.asarray(before[last] - before[first], dtype=np.float64)


def covered_before(intervals: Floats, times: Floats) -> Floats:
    """For each time, how much of the union lies before it: C(t1) - C(t0) is what [t0, t1) holds."""
    rows = union(intervals)
    if len(rows) == 0:
        return np.zeros(len(times))
    lengths = rows[:, 1] - rows[:, 0]
    before = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    at = np.maximum(np.searchsorted(rows[:, 0], times, side="right") - 1, 0)
    inside = np.clip(times - rows[at, 0], 0.0, lengths[at])
    return np.asarray(before[at] + inside, dtype=np.float64)
