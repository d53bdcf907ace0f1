from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from lightning_perfwatch.trace import Lane, Timeline, Trace, read_trace, timeline
from lightning_perfwatch.trace.nesting import depths, parents
from tests.trace.factories import (
    Json,
    annotation,
    call,
    copy,
    device_step,
    fetch,
    fill,
    frame,
    kernel,
    op,
    optimizer_step,
    step,
    trace,
)

TRACES = Path(__file__).parents[3] / "shared" / "traces"
FILES = sorted(TRACES.glob("*.gz"))
needs_traces = pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")


def shown(*events: Json) -> Timeline:
    """The timeline of these events, which has one."""
    found = timeline(trace(*events))
    assert found is not None
    return found


def rows(found: Timeline, lane: Lane) -> list[tuple[str, float, float, int]]:
    """Name, begin, duration and depth of a lane's events."""
    names = [found.names[name] for name in lane.name_ids]
    return list(zip(names, lane.begin_us, lane.duration_us, lane.depths, strict=True))


def lanes(found: Timeline) -> dict[str, list[tuple[str, float, float, int]]]:
    return {lane.name: rows(found, lane) for lane in found.lanes}


def test_a_trace_of_no_length_has_no_timeline() -> None:
    assert timeline(trace(op(5, 0))) is None


def test_of_several_steps_the_one_of_median_length_is_shown_and_counts_from_its_begin() -> None:
    found = shown(step(1, 0, 300), op(10, 5), step(2, 300, 100), op(310, 5), step(3, 400, 200), op(410, 5.5))

    assert (found.step, found.duration_us, found.num_left_out) == (3, 200.0, 0)
    assert lanes(found) == {"thread 100 (training)": [("aten::mm", 10.0, 5.5, 0)]}


def test_each_kind_of_event_has_its_lane_and_the_steps_thread_comes_first() -> None:
    found = shown(
        step(1, 0, 100),
        fetch(0, 10),
        annotation("[pl]training_step", 12, 30),
        optimizer_step(50, 40),
        op(15, 20, "aten::linear"),
        op(16, 10, "aten::addmm"),
        call(17, 2, correlation=1),
        op(60, 39, "autograd::engine::evaluate_function: MmBackward0", tid=7),
        op(60, 9, "aten::neg", tid=8),
        kernel(20, 5, correlation=1),
        copy(26, 4, stream=20),
        fill(31, 1),
        kernel(40, 5, device=1),
    )

    assert [lane.kind for lane in found.lanes] == ["phases", "loader", *["thread"] * 3, *["stream"] * 3]
    assert [lane.device for lane in found.lanes] == [None] * 5 + [0, 0, 1]
    assert lanes(found) == {
        "phases": [("[pl]training_step", 12.0, 30.0, 0), ("Optimizer.step#AdamW.step", 50.0, 40.0, 0)],
        "loader": [("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0.0, 10.0, 0)],
        "thread 100 (training)": [
            ("aten::linear", 15.0, 20.0, 0),
            ("aten::addmm", 16.0, 10.0, 1),
            ("cudaLaunchKernel", 17.0, 2.0, 2),
        ],
        "thread 7 (backward)": [("autograd::engine::evaluate_function: MmBackward0", 60.0, 39.0, 0)],
        "thread 8": [("aten::neg", 60.0, 9.0, 0)],
        "device 0, stream 7": [("sgemm", 20.0, 5.0, 0), ("Memset (Device)", 31.0, 1.0, 0)],
        "device 0, stream 20": [("Memcpy HtoD (Pageable -> Device)", 26.0, 4.0, 0)],
        "device 1, stream 7": [("sgemm", 40.0, 5.0, 0)],
    }
    assert len(set(found.names)) == len(found.names)


def test_a_label_that_is_no_phase_of_the_step_stays_on_its_thread() -> None:
    found = shown(step(1, 0, 100), annotation("gloo:all_reduce", 10, 5), annotation("mine", 20, 5, tid=7), op(30, 1))

    assert lanes(found) == {
        "thread 100 (training)": [("gloo:all_reduce", 10.0, 5.0, 0), ("aten::mm", 30.0, 1.0, 0)],
        "thread 7": [("mine", 20.0, 5.0, 0)],
    }


def test_modules_are_shown_and_python_functions_are_not() -> None:
    found = shown(step(1, 0, 100), frame("train.py(3): main", 0, 99), frame("nn.Module: Net_0", 5, 20), op(6, 2))

    assert lanes(found) == {"thread 100 (training)": [("nn.Module: Net_0", 5.0, 20.0, 0), ("aten::mm", 6.0, 2.0, 1)]}


def test_events_are_cut_at_the_ends_and_those_outside_are_not_shown() -> None:
    reaching = (kernel(0, 150), kernel(180, 90))
    at_the_edges = (op(90, 10), op(100, 0, "first"), op(150, 1, "inner"), op(200, 10))
    found = shown(op(0, 1), step(1, 100, 100), *reaching, *at_the_edges)

    assert lanes(found) == {
        "thread 100 (training)": [("first", 0.0, 0.0, 0), ("inner", 50.0, 1.0, 0)],
        "device 0, stream 7": [("sgemm", 0.0, 50.0, 0), ("sgemm", 80.0, 20.0, 0)],
    }


def test_events_that_overlap_never_lie_at_the_same_depth() -> None:
    found = shown(step(1, 0, 100), op(0, 1), kernel(10, 20), kernel(20, 20), kernel(25, 50), kernel(60, 5))

    assert [depth for *_, depth in lanes(found)["device 0, stream 7"]] == [0, 1, 2, 3]


def test_without_steps_the_whole_trace_is_shown_and_no_thread_is_the_steps() -> None:
    found = shown(op(1000, 10), annotation("mine", 1005, 20), kernel(1010, 40))

    assert (found.step, found.duration_us) == (None, 50.0)
    assert lanes(found) == {
        "thread 100": [("aten::mm", 0.0, 10.0, 0), ("mine", 5.0, 20.0, 1)],
        "device 0, stream 7": [("sgemm", 10.0, 40.0, 0)],
    }


def test_a_trace_of_a_device_alone_shows_its_own_step() -> None:
    found = shown(device_step(4, 100, 50), kernel(110, 10), kernel(300, 10))

    assert (found.step, found.duration_us) == (4, 50.0)
    assert lanes(found) == {"device 0, stream 7": [("sgemm", 10.0, 10.0, 0)]}


def test_threads_and_streams_without_a_name_are_lanes_too() -> None:
    nameless = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 5}
    bare = {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": "stream 3", "ts": 20, "dur": 5}
    found = shown(nameless, bare)

    assert [(lane.name, lane.device) for lane in found.lanes] == [
        ("thread without a name", None),
        ("device 0, stream 3", 0),
    ]


def test_the_shortest_of_too_many_events_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Timeline.__module__], "MOST_EVENTS", 3)
    found = shown(step(1, 0, 1000), *(op(100 * n, 10 + n, f"op {n}") for n in range(8)), kernel(50, 15.5))

    assert found.num_left_out == 6
    assert lanes(found) == {
        "thread 100 (training)": [("op 6", 600.0, 16.0, 0), ("op 7", 700.0, 17.0, 0)],
        "device 0, stream 7": [("sgemm", 50.0, 15.5, 0)],
    }
    assert found.names == ("op 6", "op 7", "sgemm")


def test_times_are_whole_nanoseconds_and_names_of_bounded_length() -> None:
    found = shown(step(1, 0, 100), op(1 / 3, 2 / 3), op(10, 1, "x" * 5000))

    (first, second) = lanes(found)["thread 100 (training)"]
    assert first[1:3] == (0.333, 0.667)
    assert second[0] == "x" * 199 + "…"


def test_depths_are_counted_at_once_however_deep_events_lie() -> None:
    number = 3000
    start = np.arange(number, dtype=np.float64)
    around = parents(np.zeros(number, np.int32), start, 2.0 * number - start)

    assert depths(around).tolist() == list(range(number))
    assert depths(np.empty(0, np.int64)).tolist() == []


@needs_traces
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_timeline_of_a_real_trace_holds_what_its_median_step_does(path: Path) -> None:
    recorded = read_trace(path)
    found = timeline(recorded)

    assert found is not None
    assert found.num_left_out == 0
    assert (found.step is None) == (len(recorded.steps) == 0)
    if found.step is not None:
        row = recorded.steps.numbers.tolist().index(found.step)
        assert found.duration_us == pytest.approx(recorded.steps.dur_us[row], abs=0.001)
        assert sum(recorded.steps.dur_us <= recorded.steps.dur_us[row]) >= len(recorded.steps) / 2
    assert sum(len(lane.depths) for lane in found.lanes if lane.kind == "stream") == num_device_events(recorded, found)
    for lane in found.lanes:
        begin, end = np.array(lane.begin_us), np.array(lane.begin_us) + np.array(lane.duration_us)
        assert np.all(np.diff(begin) >= 0)
        assert begin.min() >= 0
        assert end.max() <= found.duration_us + 0.001
        for depth in set(lane.depths):
            at = np.array(lane.depths) == depth
            assert np.all(end[at][:-1] <= begin[at][1:] + 0.0005)


def num_device_events(recorded: Trace, found: Timeline) -> int:
    """How many kernels, copies and fills there are between the shown step's ends, counted another way."""
    start, end = recorded.start_us, recorded.end_us
    if found.step is not None:
        row = recorded.steps.numbers.tolist().index(found.step)
        start, end = recorded.steps.start_us[row], recorded.steps.end_us[row]
    work = recorded.device_work
    times = zip(work.start_us.tolist(), work.end_us.tolist(), strict=True)
    return sum(start <= begin < end or begin < start < stop for begin, stop in times)
