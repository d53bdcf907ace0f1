"""Who is to blame for a device's idle time: each gap is given out once.

Knows a trace's host calls and device work; no shares, no thresholds.
"""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints
from lightning_perfwatch.trace.intervals import Floats, covered_before, intersect, pairs, subtract, union
from lightning_perfwatch.trace.trace import Trace, once
from lightning_perfwatch.trace.window import Window

# A launch takes the host 5 to 10 us and Python between two operators some tens; a host that does neither for a
# hundred times that is not slow at launching but busy with something else.
_STALL_US = 1000.0
# Work on an idle device starts 8 us (CUDA) to 19 us (ROCm) after its launch has returned, at most, in the shared
# traces; what takes longer waits for something on the device.
_LATENCY_US = 50.0


@dataclass(frozen=True, eq=False)
class IdleCauses:
    """Idle time of one device by cause, with a row per gap or per span of time; the parts of a row add up to it."""

    data_us: Floats
    sync_us: Floats
    stall_us: Floats
    launch_us: Floats
    other_us: Floats

    def take(self, rows: Ints) -> "IdleCauses":
        """The causes of these rows."""
        return IdleCauses(**{key: column[rows] for key, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Gaps:
    """The idle times of a device, in order, each with the launch of the work that ends it.

    `launched` is NaN without a launch record and after the last work. `late_until`: up to there the gap is due to a
    launch that ended when the device had already run dry; its start where it is not. `caught_up`: since the gap before,
    work was launched on a busy device.
    """

    start: Floats
    end: Floats
    launched: Floats
    late_until: Floats
    caught_up: Bools

    def take(self, rows: Ints) -> "Gaps":
        """These gaps."""
        return Gaps(**{key: column[rows] for key, column in vars(self).items()})


def idle_causes(trace: Trace, device: int, window: Window) -> IdleCauses | None:
    """Give out each gap of the device with this index; None where the trace has no host calls.

    The time under the data loader goes to the data. The rest of a gap is the host's fault only where the work
    that ends it was launched late, and until shortly after that; queued work waited for something on the device.

    A synchronisation delays the launches that follow by the time it holds the host, so without it late gaps
    would be shorter by up to that time, until the host is ahead of the device again. They are given to it to
    that extent and no more: a short wait cannot explain a long gap, and a wait on a device that stays busy
    costs only the gap after it.

    What remains of a late gap is a stall as far as the host ran nothing that the profiler saw, else slow launches.
    """
    if len(trace.runtime) == 0:
        return None
    return _causes(trace, device, window)


def idle_in_spans(trace: Trace, device: int, window: Window, start: Floats, end: Floats) -> IdleCauses | None:
    """The same for each of the disjoint spans [start, end) inside the window, in order of time.

    What a gap across the edge of a span has of waiting for data and of stalls lies on its side of the edge;
    what a synchronisation explains of it is given to the sides in proportion.
    """
    if len(trace.runtime) == 0:
        return None
    gaps, whole = find_gaps(trace, device, window), _causes(trace, device, window)
    span = _holding(start, end, gaps.start)
    is_inside = span >= 0
    is_inside[is_inside] = gaps.end[is_inside] <= end[span[is_inside]]
    cut = np.flatnonzero(~is_inside)
    parts = _split(trace, window, gaps.take(cut), whole.take(cut), start, end)
    sums = {
        key: np.bincount(span[is_inside], column[is_inside], len(start)) + getattr(parts, key)
        for key, column in vars(whole).items()
    }
    return IdleCauses(**sums)


def _split(trace: Trace, window: Window, gaps: Gaps, whole: IdleCauses, start: Floats, end: Floats) -> IdleCauses:
    """What each span [start, end) has of the gaps, of which `whole` are the causes."""
    edges = np.unique(np.concatenate((gaps.start, gaps.end, start, end)))
    gap, span = _holding(gaps.start, gaps.end, edges[:-1]), _holding(start, end, edges[:-1])
    at = np.flatnonzero((gap >= 0) & (span >= 0))
    gap, span, first, last = gap[at], span[at], edges[at], edges[at + 1]
    data = _covered(trace.dataloader.intervals, first, last)
    late_until = np.clip(gaps.late_until[gap], first, last)
    late = late_until - first - _covered(trace.dataloader.intervals, first, late_until)
    whole_late = whole.sync_us + whole.stall_us + whole.launch_us
    share = np.divide(late, whole_late[gap], out=np.zeros(len(at)), where=whole_late[gap] > 0)
    sync = np.minimum(whole.sync_us[gap] * share, late)
    parts = _parts(trace, window, (first, late_until, last), data, late, sync)
    sums = {key: np.bincount(span, column, len(start)) for key, column in vars(parts).items()}
    return IdleCauses(**{key: column.astype(np.float64) for key, column in sums.items()})


@once
def _causes(trace: Trace, device: int, window: Window) -> IdleCauses:
    """The causes of each gap of `find_gaps`."""
    gaps = find_gaps(trace, device, window)
    length = gaps.end - gaps.start
    data = _covered(trace.dataloader.intervals, gaps.start, gaps.end)
    held = _covered(trace.syncs.intervals, _launch_before(trace, gaps.launched), gaps.launched)
    late = gaps.late_until - gaps.start - _covered(trace.dataloader.intervals, gaps.start, gaps.late_until)
    sync = _given_to_syncs(length, late, held, gaps.caught_up)
    return _parts(trace, window, (gaps.start, gaps.late_until, gaps.end), data, late, sync)


def _parts(
    trace: Trace, window: Window, edges: tuple[Floats, Floats, Floats], data: Floats, late: Floats, sync: Floats
) -> IdleCauses:
    """What is neither the data's nor a synchronisation's is a stall, slow launching, or not the host's."""
    start, late_until, end = edges
    stall = np.minimum(late - sync, _covered(stalls(trace, window), start, late_until))
    return IdleCauses(data, sync, stall, late - sync - stall, end - start - data - late)


def _holding(start: Floats, end: Floats, times: Floats) -> Ints:
    """For each time the row of the disjoint spans, in order of time, that holds it, or -1."""
    if len(start) == 0:
        return np.full(len(times), -1, np.int64)
    at = np.searchsorted(start, times, side="right") - 1
    return np.where((at >= 0) & (times < end[np.maximum(at, 0)]), at, -1).astype(np.int64)


@once
def find_gaps(trace: Trace, device: int, window: Window) -> Gaps:
    """The idle times of a device inside the window."""
    work = trace.work_of(device)
    rows = trace.launches(work)
    known = rows >= 0
    launched = np.where(known, trace.runtime.start_us[rows], np.nan)
    returned = np.where(known, trace.runtime.end_us[rows], np.nan)
    # One more row for the end of the window, which no work ends.
    start = np.append(np.maximum(work.start_us, window.start_us), window.end_us)
    busy_until = np.append(window.start_us, work.end_us)
    busy_until = np.minimum(np.maximum.accumulate(busy_until), window.end_us)
    late = np.append(returned >= busy_until[:-1], False)  # False for NaN
    reached = np.where(late, np.append(returned + _LATENCY_US, 0.0), busy_until)
    at = np.flatnonzero(np.minimum(start, window.end_us) > busy_until)
    num_ahead = np.cumsum(~late)
    return Gaps(
        start=busy_until[at],
        end=np.minimum(start, window.end_us)[at],
        launched=np.append(launched, np.nan)[at],
        late_until=np.clip(reached, busy_until, np.minimum(start, window.end_us))[at],
        caught_up=np.diff(num_ahead[at], prepend=0) > 0,
    )


@once
def stalls(trace: Trace, window: Window) -> Floats:
    """Where no thread of the host ran an operator or a call for long: a hook, a sleep, logging, I/O."""
    quiet = subtract(np.array([[window.start_us, window.end_us]]), trace.host_active)
    return quiet[quiet[:, 1] - quiet[:, 0] >= _STALL_US]


def idle_stalls(trace: Trace, device: int, window: Window) -> Floats:
    """Where such a stall leaves the device idle: it had run dry, and the work that ends this came late."""
    if len(trace.runtime) == 0:
        return np.empty((0, 2))
    gaps = find_gaps(trace, device, window)
    return intersect(stalls(trace, window), pairs(gaps.start, gaps.late_until))


def _given_to_syncs(length: Floats, late: Floats, held: Floats, caught_up: Bools) -> Floats:
    """The part of each gap that the delay by synchronisations explains; a gap uses the delay up."""
    given = np.zeros(len(length))
    gaps, parts, added, ahead = length.tolist(), late.tolist(), held.tolist(), caught_up.tolist()
    delay, behind = 0.0, 0
    for begin in np.flatnonzero(held > 0).tolist():
        if begin < behind:
            continue
        # From here on until the delay is used up; between such stretches there is none.
        for row in range(begin, len(gaps)):
            delay = added[row] if ahead[row] else delay + added[row]
            given[row] = min(parts[row], delay)
            delay = max(delay - gaps[row], 0.0)
            behind = row + 1
            if delay == 0.0:
                break
    return given


def _launch_before(trace: Trace, launched: Floats) -> Floats:
    """Start of the last call before each launch that gave a device something to do.

    A copy to the host is such a call and a wait at once: its time counts for the launch that follows.
    """
    rows = trace.launches(trace.device_work)
    starts = np.unique(trace.runtime.start_us[rows[rows >= 0]])
    at = np.searchsorted(starts, launched, side="left") - 1
    return np.where(at >= 0, starts[np.maximum(at, 0)], 0.0) if len(starts) else np.zeros(len(launched))


def _covered(intervals: Floats, start: Floats, end: Floats) -> Floats:
    """How much of each [start, end) the intervals cover; 0 where an edge is unknown."""
    rows = union(intervals)
    return np.nan_to_num(covered_before(rows, end) - covered_before(rows, start))
