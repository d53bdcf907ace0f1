"""What ``perfwatch trigger`` says, without a training: the file of one that listens is enough."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lightning_perfwatch.cli import main
from lightning_perfwatch.measurements import Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.run_directory import RunDirectory
from lightning_perfwatch.window_requests import REQUEST_NAME, Listening, WindowRequests

ME = Listening(os.getpid(), socket.gethostname(), "once a second")
ASKED = "requested with perfwatch trigger"


def write_report(directory: Path, *first_steps: int) -> None:
    """A report with a window from each of these steps on, each of which was asked for."""
    windows = tuple(Window(first, 5, 5, trace="x", opened_by=ASKED) for first in first_steps)
    RunDirectory(directory).write_report(Report(windows=windows))


def later(act: Callable[[], None]) -> threading.Thread:
    """Let another thread ``act`` as a training that answers."""
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_request_lies_in_the_run_directory_and_what_will_happen_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    WindowRequests(tmp_path).say(ME)

    assert main(["trigger", str(tmp_path)]) == 0
    assert (tmp_path / REQUEST_NAME).exists()
    out = capsys.readouterr().out
    assert f"Asked process {ME.pid} on {ME.host} for a window; it looks once a second." in out
    assert str(tmp_path / "report.json") in out

    assert main(["trigger", str(tmp_path)]) == 0
    assert "A window is asked for already" in capsys.readouterr().out


def gone(directory: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    WindowRequests(directory).say(replace(ME, pid=child.pid))


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda directory: directory.rmdir(), "is no directory: give the run directory of a training"),
        (lambda directory: None, "has not come to its first step, or takes no requests"),
        (write_report, "it holds a report, so a training here is over"),
        (gone, "is gone"),
        (
            lambda directory: WindowRequests(directory).say(replace(ME, off="tracing is off: another records")),
            "can record no window: tracing is off: another records",
        ),
        (lambda directory: (directory / "listening.json").write_text("{"), "is no PerfWatch file of this version"),
    ],
    ids=["nowhere", "empty", "over", "gone", "off", "foreign"],
)
def test_where_nobody_can_answer_one_sentence_says_why_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prepare: Callable[[Path], None], says: str
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    prepare(directory)

    assert main(["trigger", str(directory), "--wait", "5"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert not (directory / REQUEST_NAME).exists()


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon"])
def test_a_time_that_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    assert main(["trigger", str(tmp_path), f"--wait={seconds}"]) == 2
    assert "--wait" in capsys.readouterr().err


def test_waiting_ends_with_the_report_that_holds_the_new_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier window that was asked for is none, though the report and the training tell of it."""
    requests = WindowRequests(tmp_path)
    requests.say(replace(ME, first_step=20, num_steps=5, is_closed=True, trace="x"))
    write_report(tmp_path, 20)

    def answer() -> None:
        while not (tmp_path / REQUEST_NAME).exists():
            pass
        requests.say(replace(ME, first_step=70, num_steps=5))
        write_report(tmp_path, 20, 70)

    thread = later(answer)
    assert main(["trigger", str(tmp_path), "--wait", "60"]) == 0
    thread.join()
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("PerfWatch profiled steps 70 to 74: ")


def test_a_report_that_stays_as_it_is_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WindowRequests(tmp_path).say(replace(ME, first_step=20, num_steps=5, is_closed=True, trace="x"))
    write_report(tmp_path, 20)
    read_report, reads = RunDirectory.read_report, []

    def read(directory: RunDirectory) -> Report:
        reads.append(directory.path)
        return read_report(directory)

    monkeypatch.setattr(RunDirectory, "read_report", read)

    assert main(["trigger", str(tmp_path), "--wait", "0.5"]) == 1
    assert reads == [tmp_path]


def test_waiting_ends_when_the_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    WindowRequests(tmp_path).say(ME)

    assert main(["trigger", str(tmp_path), "--wait", "0.2"]) == 1
    assert "The window is not in the report yet; the training goes on." in capsys.readouterr().out


def test_waiting_goes_on_to_the_last_report_of_a_training_that_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = WindowRequests(tmp_path)
    requests.say(ME)

    def end() -> None:
        while not (tmp_path / REQUEST_NAME).exists():
            pass
        requests.end()
        write_report(tmp_path, 30)

    thread = later(end)
    assert main(["trigger", str(tmp_path), "--wait", "60"]) == 0
    thread.join()
    assert "PerfWatch profiled steps 30 to 34" in capsys.readouterr().out


def test_a_last_report_without_the_window_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = WindowRequests(tmp_path)
    requests.say(ME)

    def end() -> None:
        while not (tmp_path / REQUEST_NAME).exists():
            pass
        requests.end()
        write_report(tmp_path)

    thread = later(end)
    assert main(["trigger", str(tmp_path), "--wait", "1"]) == 1
    thread.join()
    assert "The training is over and its report does not hold the window." in capsys.readouterr().out
