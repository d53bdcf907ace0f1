"""Windows with little room, windows that fail, and what else runs beside them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_perfwatch.live import capture as capture_module
from lightning_perfwatch.live.capture import CaptureError
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.measurements import Window
from tests.live.traces import PLANNED, files, new_capture, record, steps_of, trial, work


def test_a_trace_with_room_for_fewer_steps_closes_early_and_says_so(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, options=TraceOptions(max_trace_mb=0.25))
    trial(capture, num_operations=150)

    reason = capture.start(range(10, 30))

    assert reason is not None
    assert "of 20 steps" in reason
    assert "MB of trace and max_trace_mb is 0.25" in reason
    num_steps = 0
    while not capture.is_full:
        record(capture, 1)
        num_steps += 1
    assert 1 <= num_steps < 20
    assert f"closes after {num_steps} of 20 steps" in reason
    window = capture.stop(range(10, 30), reason)
    assert (window.num_steps, window.planned_steps, window.partial, window.reason) == (num_steps, 20, True, reason)
    assert len(steps_of(tmp_path, window)) == num_steps


def test_a_step_larger_than_the_limit_is_recorded_alone(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, options=TraceOptions(max_trace_mb=0.01))
    trial(capture, num_operations=200)

    reason = capture.start(range(5))
    record(capture, 5)
    window = capture.stop(range(5), reason)

    assert window.num_steps == 1
    assert window.trace is not None


def test_a_single_step_has_nothing_to_be_cut_off(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, options=TraceOptions(max_trace_mb=0.01))
    trial(capture, num_operations=200)

    assert capture.start(range(1)) is None
    record(capture, 1)
    assert not capture.stop(range(1)).partial


def test_room_for_more_is_judged_by_the_trial(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, options=TraceOptions(max_trace_mb=1.0))
    assert capture.fits(1e9)
    trial(capture, num_operations=100)
    capture.start(range(2))

    assert capture.fits(0)
    assert not capture.fits(1000)
    capture.discard()


def test_a_trial_over_several_steps_gives_their_mean(tmp_path: Path) -> None:
    rooms = []
    for num_steps in (1, 4):
        capture = new_capture(tmp_path, options=TraceOptions(max_trace_mb=2.0))
        capture.begin_trial()
        for _ in range(100 * num_steps):
            work()
        capture.end_trial(num_steps)
        reason = capture.start(range(1000))
        capture.discard()
        assert reason is not None
        rooms.append(int(reason.partition("closes after ")[2].partition(" ")[0]))

    assert rooms[0] > 5
    assert rooms[1] == pytest.approx(rooms[0], rel=0.5)


def test_stopping_on_another_thread_is_refused_and_the_profiler_can_still_be_ended_here(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.start(PLANNED)
    record(capture, 4)
    windows: list[Window] = []
    thread = threading.Thread(target=lambda: windows.append(capture.stop(PLANNED)))
    thread.start()
    thread.join()

    (window,) = windows
    assert window.trace is None
    assert window.reason == "it can only be stopped on the thread that started it"
    assert torch._C._autograd._profiler_enabled()
    capture.discard()
    assert not torch._C._autograd._profiler_enabled()
    assert files(tmp_path) == []


def test_a_directory_that_has_gone_is_a_reason_and_no_error(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    capture = new_capture(directory)
    capture.start(PLANNED)
    record(capture, 4)
    shutil.rmtree(directory)

    window = capture.stop(PLANNED)

    assert (window.trace, window.num_steps, window.partial) == (None, 4, True)
    assert str(window.reason).startswith("the trace could not be written: ")
    assert not capture.is_on
    assert files(tmp_path) == []


def test_an_export_that_fails_halfway_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_: Any, path: Path) -> None:
        path.write_text('{"traceEvents": [')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(capture_module, "_export", full_disk)
    capture = new_capture(tmp_path)
    capture.start(PLANNED)
    record(capture, 4)

    window = capture.stop(PLANNED)

    assert window.reason == "the trace could not be written: [Errno 28] No space left on device"
    assert files(tmp_path) == []


def test_beside_another_profiler_it_refuses_to_start_and_spares_that_ones_data(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer:
        work()
        with pytest.raises(CaptureError, match="another profiler runs on this thread"):
            capture.start(PLANNED)
        with pytest.raises(CaptureError):
            capture.begin_trial()
        capture.discard()
        work()

    assert sum(event.name == "aten::mm" for event in outer.events() or ()) == 2
    assert not capture.is_on


SCRIPT = """
import sys
from pathlib import Path
import torch
from lightning_perfwatch.live.capture import Capture
from lightning_perfwatch.live.trace_options import TraceOptions
capture = Capture(Path(sys.argv[1]), "rank0", ["cpu"], TraceOptions())
capture.begin_trial()
torch.ones(2).sum()
capture.end_trial(1)
capture.start(range(1))
capture.begin_step()
torch.ones(2).sum()
capture.end_step()
assert capture.stop(range(1)).trace
assert not torch._C._autograd._profiler_enabled()
"""


def test_kineto_says_nothing_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)]
    root = Path(__file__).parents[2]

    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
