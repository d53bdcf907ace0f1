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
    pending = np.flatnonzero((end_us[:-1] <= start_us[1:]) | (tid[:-1] != tid[1:])) + 1
    while len(pending):
        parent[pending] = at = parent[parent[pending]]
        pending = pending[(at >= 0) & ((end_us[at] <= start_us[pending]) | (tid[at] != tid[pending]))]
    return parent


def depths(parent: Ints) -> Ints:
    """For each row how many events lie around it, from the rows that :func:`parents` gives."""
    depth = (parent >= 0).astype(np.int64)
    above = parent
    # Each round doubles how far up a row has looked.
    while len(rows := np.flatnonzero(above >= 0)):
        depth[rows] += depth[above[rows]]
        above = np.where(above >= 0, above[above], -1)
    return depth


def nested(tid: Ids, start_us: Floats, dur_us: Floats) -> tuple[Ints, Floats]:
    """For each row, in any order, the row of the event around it, -1 for the outermost, and the time left to itself."""
    order = _outermost_first(tid, start_us, dur_us)
    thread, start = tid[order], start_us[order]
    end = start + dur_us[order]
    parent = parents(thread, start, end)
    around = _unsorted(parent, order)
    inner = np.flatnonzero(parent >= 0)
    outer = parent[inner]
    # Spans that stick out of the one around them (clocks round, stacks are incoherent) end with it here, so
    # that the self times of a thread add up to its busy time.
    while np.any(late := end[inner] > end[outer]):
        end[inner[late]] = end[outer[late]]
    own = end - start
    own -= np.bincount(outer, (end - start)[inner], len(own)) if len(inner) else 0.0
    result = np.empty(len(own))
    result[order] = np.maximum(own, 0.0)
    return around, result


def enclosing(outer: Spans, tid: Ids, times_us: Floats, around: Ints | None = None) -> Ints:
    """For each time on a thread the row of `outer` open there that began last, -1 where none is.

    `around` is the first column of :func:`nested` for `outer`, where it is known.
    """
    order = _outermost_first(outer.tid, outer.start_us, outer.dur_us)
    found = np.full(len(times_us), -1, np.int64)
    if len(order) == 0 or len(times_us) == 0:
        return found
    starts, ends = outer.start_us[order], outer.end_us
    threads, begins = np.unique(outer.tid[order], return_index=True)
    asked = _by_thread(tid)
    asked_threads = tid[asked]
    first, last = np.searchsorted(asked_threads, threads, "left"), np.searchsorted(asked_threads, threads, "right")
    for begin, stop, low, high in zip(begins, [*begins[1:], len(order)], first, last, strict=True):
        rows = asked[low:high]
        # Behind all rows of the same instant, so that an event at a span's start lies in it.
        at = np.searchsorted(starts[begin:stop], times_us[rows], "right") - 1
        found[rows] = np.where(at >= 0, order[begin + np.maximum(at, 0)], -1)
    if around is None:
        around = _unsorted(parents(outer.tid[order], starts, ends[order]), order)
    # One round per level of nesting.
    pending = np.flatnonzero(found >= 0)
    while len(pending := pending[ends[found[pending]] <= times_us[pending]]):
        found[pending] = around[found[pending]]
        pending = pending[found[pending] >= 0]
    return found


def _unsorted(parent: Ints, order: Ints) -> Ints:
    """Parents of sorted rows as rows of the unsorted columns."""
    around = np.full(len(order), -1, np.int64)
    inner = np.flatnonzero(parent >= 0)
    around[order[inner]] = order[parent[inner]]
    return around


def _outermost_first(tid: Ids, start_us: Floats, dur_us: Floats) -> Ints:
    """The order by thread, then start, then falling length; fast where rows come nearly in order of time."""
    order = np.argsort(start_us, kind="stable")
    start = start_us[order]
    same = np.append(False, start[1:] == start[:-1])
    if same.any():
        tied = np.flatnonzero(same | np.append(same[1:], False))
        rows = order[tied]
        order[tied] = rows[np.lexsort((-dur_us[rows], start_us[rows]))]
    return np.asarray(order[_by_thread(tid[order])])


def _by_thread(tid: Ids) -> Ints:
    """A stable order by thread; numpy sorts 16 bits by counting."""
    few = len(tid) > 0 and int(tid.min()) >= 0 and int(tid.max()) < 1 << 15
    return np.argsort(tid.astype(np.int16) if few else tid, kind="stable")
