"""Which event runs inside which, per thread, and the time that is left to each; knows no kind of event."""

import numpy as np

from lightning_perfwatch.trace.columns import Ids, Ints, Spans
from lightning_perfwatch.trace.intervals import Floats


def parents(tid: Ids, start_us: Floats, end_us: Floats) -> Ints:
    """For each row the row of the event around it on its thread, -1 for the outermost.

    Rows must be sorted by thread, then start, then falling end. The event around another is the one that
    began last of those still open; that holds for spans that overlap without nesting, too.
    """
    number = len(start_us)
    parent = np.arange(-1, number - 1)
    # Every pointer to an event that has ended jumps to where that event's pointer leads, all at once, so a
    # long row of siblings takes logarithmically many rounds.
    pending = np.arange(number)
    while len(pending):
        at = parent[pending]
        closed = (at >= 0) & ((end_us[at] <= start_us[pending]) | (tid[at] != tid[pending]))
        pending = pending[closed]
        parent[pending] = parent[parent[pending]]
    return parent


def nested(tid: Ids, start_us: Floats, dur_us: Floats) -> tuple[Ints, Floats]:
    """For each row, in any order, the row of the event around it, -1 for the outermost, and the time left to itself."""
    order = np.lexsort((-dur_us, start_us, tid))
    thread, start = tid[order], start_us[order]
    end = start + dur_us[order]
    parent = parents(thread, start, end)
    inner = np.flatnonzero(parent >= 0)
    outer = parent[inner]
    around = np.full(len(order), -1, np.int64)
    around[order[inner]] = order[outer]
    # Spans that stick out of the one around them (clocks round, stacks are incoherent) end with it here, so
    # that the self times of a thread add up to its busy time.
    while np.any(late := end[inner] > end[outer]):
        end[inner[late]] = end[outer[late]]
    own = end - start
    own -= np.bincount(outer, (end - start)[inner], len(own)) if len(inner) else 0.0
    result = np.empty(len(own))
    result[order] = np.maximum(own, 0.0)
    return around, result


def enclosing(outer: Spans, tid: Ids, times_us: Floats) -> Ints:
    """For each time on a thread the row of `outer` open there that began last, -1 where none is."""
    order = np.lexsort((-outer.dur_us, outer.start_us, outer.tid))
    thread, start = outer.tid[order], outer.start_us[order]
    end = start + outer.dur_us[order]
    number = len(order)
    # All rows before all times of the same instant, so that an event at a span's start lies in it.
    merged = np.lexsort((np.arange(number + len(times_us)), np.append(start, times_us), np.append(thread, tid)))
    at = np.empty(len(merged), np.int64)
    at[merged] = np.cumsum(merged < number) - 1
    at = at[number:]
    if number == 0:
        return at
    at[thread[at] != tid] = -1
    parent = parents(thread, start, end)
    # One round per level of nesting.
    pending = np.flatnonzero(at >= 0)
    while len(pending := pending[end[at[pending]] <= times_us[pending]]):
        at[pending] = parent[at[pending]]
        pending = pending[at[pending] >= 0]
    return np.where(at >= 0, order[at], -1)
