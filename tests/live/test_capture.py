from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from lightning_perfwatch.live.capture import Capture
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.measurements import Window
from tests.live.traces import PLANNED, document_of, files, new_capture, record, spans, steps_of, trial, work


def test_a_capture_that_was_never_started_leaves_nothing(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.begin_step()
    capture.end_step()
    capture.discard()

    assert not capture.is_on
    assert not capture.is_recording
    assert capture.stop(PLANNED) == Window(10, 0, 4, partial=True)
    assert files(tmp_path) == []


def test_a_whole_window_has_one_span_for_each_of_its_steps(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    trial(capture)
    assert capture.start(PLANNED) is None
    work()  # outside of steps, such as validation
    record(capture, 4)
    assert capture.is_full
    record(capture, 2)
    window = capture.stop(PLANNED)

    assert (window.first_step, window.num_steps, window.planned_steps) == (10, 4, 4)
    assert (window.partial, window.reason, window.rank) == (False, None, 0)
    assert steps_of(tmp_path, window) == {f"ProfilerStep#{step}": 1 for step in PLANNED}
    (file,) = files(tmp_path)
    assert file.name == window.trace
    assert window.size_mb == file.stat().st_size / 1e6
    assert window.stop_s is not None
    assert window.stop_s > 0
    assert window.export_s is not None
    assert window.export_s > 0


def test_the_file_is_named_so_that_other_tools_find_it(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, worker="rank3", rank=3, world_size=4)
    before_ns = time.time_ns()
    capture.start(range(1))
    record(capture, 1)
    window = capture.stop(range(1))

    assert window.rank == 3
    worker, made_ns, *suffix = str(window.trace).split(".")
    assert (worker, suffix) == ("rank3", ["pt", "trace", "json"])
    assert before_ns <= int(made_ns) <= time.time_ns()


def test_the_trace_says_which_run_it_is_of(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.start(PLANNED)
    record(capture, 4)
    document = document_of(tmp_path, capture.stop(PLANNED))

    assert document["distributedInfo"] == {"backend": None, "rank": 0, "world_size": 1}
    assert document["perfwatch"] == {"first_step": 10, "steps": 4}


@pytest.mark.parametrize("num_done", [1, 3])
def test_a_window_that_ends_between_two_steps_is_partial(tmp_path: Path, num_done: int) -> None:
    capture = new_capture(tmp_path)
    capture.start(PLANNED)
    record(capture, num_done)
    window = capture.stop(PLANNED, "the run ended")

    assert (window.num_steps, window.planned_steps, window.partial, window.reason) == (
        num_done,
        4,
        True,
        "the run ended",
    )
    assert steps_of(tmp_path, window) == {f"ProfilerStep#{step}": 1 for step in PLANNED[:num_done]}


def test_a_step_that_was_broken_off_is_called_so_and_counts_for_nothing(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.start(PLANNED)
    record(capture, 2)
    capture.begin_step()
    work()
    window = capture.stop(PLANNED, "the run ended with KeyboardInterrupt")

    assert (window.num_steps, window.partial) == (2, True)
    assert steps_of(tmp_path, window) == {"ProfilerStep#10": 1, "ProfilerStep#11": 1, "AbortedStep #12": 1}


def test_a_broken_off_step_does_not_rename_one_whose_number_begins_alike(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.start(range(1, 11))
    record(capture, 9)
    with torch.profiler.record_function("ProfilerStep#100 is a name of the user's"):
        pass
    capture.begin_step()
    window = capture.stop(range(1, 11))

    names = [event["name"] for event in spans(document_of(tmp_path, window), "")]
    assert "AbortedStep #10" in names
    assert "ProfilerStep#100 is a name of the user's" in names
    assert "ProfilerStep#1" in names


def test_a_step_that_begins_twice_begins_once(tmp_path: Path) -> None:
    """With the fetch of its batch, and again with the hook before it."""
    capture = new_capture(tmp_path)
    capture.start(range(2))
    for _ in range(2):
        capture.begin_step()
        capture.begin_step()
        work()
        capture.end_step()
    document = document_of(tmp_path, capture.stop(range(2)))

    assert [step["name"] for step in spans(document, "ProfilerStep#")] == ["ProfilerStep#0", "ProfilerStep#1"]


@pytest.mark.parametrize("begin", [True, False])
def test_a_window_without_a_complete_step_leaves_no_file(tmp_path: Path, begin: bool) -> None:
    capture = new_capture(tmp_path, rank=2)
    capture.start(PLANNED)
    if begin:
        capture.begin_step()
        work()
    window = capture.stop(PLANNED)

    assert window == Window(10, 0, 4, partial=True, reason="the run ended before a step was recorded", rank=2)
    assert files(tmp_path) == []


def test_several_windows_have_a_file_each(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    windows = []
    for planned in (range(2), range(5, 7)):
        trial(capture)
        capture.start(planned)
        record(capture, 2)
        windows.append(capture.stop(planned))

    assert [sorted(steps_of(tmp_path, window)) for window in windows] == [
        ["ProfilerStep#0", "ProfilerStep#1"],
        ["ProfilerStep#5", "ProfilerStep#6"],
    ]
    assert len(files(tmp_path)) == 2


def test_discarding_ends_the_profiler_at_any_time(tmp_path: Path) -> None:
    for begin in (Capture.begin_trial, lambda capture: capture.start(PLANNED)):
        capture = new_capture(tmp_path)
        begin(capture)
        capture.begin_step()
        assert torch._C._autograd._profiler_enabled()
        capture.discard()
        capture.discard()
        assert not torch._C._autograd._profiler_enabled()
        assert not capture.is_recording
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ['a"b\\c\n\x01', '{"device": "cpu"}', "µ 中 <b>"])
def test_any_name_of_the_users_own_leaves_the_file_valid(tmp_path: Path, name: str) -> None:
    capture = new_capture(tmp_path)
    capture.start(range(2))
    capture.begin_step()
    with torch.profiler.record_function(name):
        work()
    capture.end_step()
    capture.begin_step()
    window = capture.stop(range(2))

    assert len(steps_of(tmp_path, window)) == 2


@pytest.mark.parametrize(
    ("options", "key"),
    [(TraceOptions(record_shapes=True), "Input Dims"), (TraceOptions(with_stack=True), "Python id")],
)
def test_what_is_recorded_is_as_asked_for(tmp_path: Path, options: TraceOptions, key: str) -> None:
    found = []
    for chosen in (TraceOptions(), options):
        capture = new_capture(tmp_path, options=chosen)
        capture.start(range(1))
        record(capture, 1)
        text = json.dumps(document_of(tmp_path, capture.stop(range(1))))
        found.append(key in text)

    assert found == [False, True]
