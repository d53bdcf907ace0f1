from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.analysis import Analysis, AnalysisError, longest_wait_s
from lightning_perfwatch.report import Report
from lightning_perfwatch.run_directory import RunDirectory
from tests.live.children import (
    CRASHES,
    HANGS,
    IS_KILLED,
    LEAVES_NOTHING,
    names,
    pid_in,
    play_interpreter,
    runs,
    with_trace,
)

PATIENCE_S = 60.0


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.write_evidence(Evidence(notes=("a note",)))
    return directory


@contextmanager
def typed(text: str) -> Iterator[None]:
    """This process's own input holds ``text``."""
    own = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(own, 0)
        os.close(own)


def failure(directory: RunDirectory, longest_s: float = PATIENCE_S) -> str:
    analysis = Analysis(directory)
    with pytest.raises(AnalysisError) as failed:
        analysis.result(longest_s)
    assert not analysis.is_running
    return str(failed.value)


def test_a_child_reads_the_trace_and_leaves_report_page_and_packed_trace(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "my run")
    evidence = with_trace(directory.path)
    directory.write_evidence(evidence)

    report = Analysis(directory).result(PATIENCE_S)

    assert report == directory.read_report()
    assert [op.name for op in report.top_ops if op.name == "aten::mm"] == ["aten::mm"]
    assert report.phases["forward"].s_per_step == pytest.approx(0.01)
    trace = f"{evidence.windows[0].trace}.gz"
    assert [window.trace for window in report.windows] == [trace]
    assert names(directory.path) == sorted(["evidence.json", "report.html", "report.json", trace])


def test_arguments_reach_the_child(directory: RunDirectory) -> None:
    everything = Analysis(directory).result(PATIENCE_S)
    asked = Analysis(directory, ["--rule", "host-sync"]).result(PATIENCE_S)
    ignored = Analysis(directory, ["--ignore", "host-sync"]).result(PATIENCE_S)

    assert everything.skipped.keys() > {"host-sync"}
    left_out = "the settings leave it out"
    assert {rule for rule, reason in asked.skipped.items() if reason == left_out} == asked.skipped.keys() - {
        "host-sync"
    }
    assert ignored.skipped == {**everything.skipped, "host-sync": left_out}


def test_the_child_runs_without_torch_without_waiting_for_input_and_out_of_reach_of_ctrl_c(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sys.executable
    tell = (
        "import os, sys, json, lightning_perfwatch.cli as cli; arguments = sys.argv[3:]; "
        "status = cli.main(arguments); "
        "told = [sys.stdin.read(), os.getpgid(0) == os.getpid(), os.nice(0), sorted(sys.modules)]; "
        "json.dump(told, open(sys.argv[1], 'w')); "
        "sys.exit(status)"
    )
    told = tmp_path / "told.json"
    play_interpreter(monkeypatch, tmp_path / "bin", f'shift; exec {real} -c "{tell}" {told} "$@"')
    monkeypatch.chdir(tmp_path)

    with typed("for the training alone"):
        report = Analysis(directory).result(PATIENCE_S)

    stdin, leads_its_group, niceness, modules = json.loads(told.read_text())
    assert report.notes == ("a note",)
    assert (stdin, leads_its_group) == ("", True)
    assert niceness == 19
    assert not {"torch", "lightning"} & set(modules)


def test_a_module_that_lies_in_the_run_directory_is_not_imported(directory: RunDirectory) -> None:
    (directory.path / "msgspec.py").write_text("raise SystemExit('the wrong one')")

    assert Analysis(directory).result(PATIENCE_S).notes == ("a note",)


def test_a_child_that_finds_no_evidence_says_so_in_its_last_words(directory: RunDirectory) -> None:
    directory.evidence_file.write_text("{ not json")

    reason = failure(directory)

    assert reason.startswith("it ended with status 2 (")
    assert "This is no evidence of a PerfWatch run" in reason
    assert names(directory.path) == ["evidence.json"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (CRASHES, "it ended with status 3 (no such evidence)"),
        ("exit 5", "it ended with status 5"),
        (IS_KILLED, "it ended with status -9"),
        (LEAVES_NOTHING, "it left no report"),
        ("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1", f"it ended with status 1 ({'x' * 300})"),
        ("printf '\\377\\376' >&2; exit 1", "it ended with status 1 (\ufffd\ufffd)"),
        ('echo "{{}}" >"$4/report.json"', "its report can't be read: This is no PerfWatch report"),
    ],
)
def test_a_child_that_fails_is_a_reason(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", script)

    assert failure(directory).startswith(reason)


def test_an_older_report_is_not_taken_for_the_result_of_a_child_that_failed(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.write_report(Report(notes=("of yesterday",)))
    play_interpreter(monkeypatch, tmp_path / "bin", CRASHES)

    assert failure(directory) == "it ended with status 3 (no such evidence)"


def test_a_child_that_hangs_is_ended_at_the_bound(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", HANGS)
    analysis = Analysis(directory)
    pid = pid_in(tmp_path / "bin")
    assert analysis.is_running
    start_s = time.monotonic()

    with pytest.raises(AnalysisError, match="it was not done after 0 s and was ended"):
        analysis.result(0.2)

    assert time.monotonic() - start_s < 20.0
    assert not runs(pid)
    assert not analysis.is_running


def test_whoever_waits_for_long_is_told_once_and_half_written_files_are_removed(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", HANGS)
    told: list[int] = []
    (directory.path / "rank0.1.pt.trace.json.gz.part").write_bytes(b"half")

    with pytest.raises(AnalysisError, match="it was not done"):
        Analysis(directory).result(1.3, lambda: told.append(1))

    assert told == [1]
    assert not list(directory.path.glob("*.part"))


def test_a_child_that_is_quick_is_waited_for_in_silence(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", CRASHES)
    told: list[int] = []

    with pytest.raises(AnalysisError, match="status 3"):
        Analysis(directory).result(30.0, lambda: told.append(1))

    assert told == []


def test_a_child_at_the_lowest_priority_does_not_compete_and_any_other_does(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", HANGS)
    for expected in (sys.version_info < (3, 11), True):
        analysis = Analysis(directory)
        try:
            assert analysis.competes is expected
        finally:
            analysis.end()
        assert not analysis.competes
        monkeypatch.setattr("lightning_perfwatch.live.analysis._at_lowest_priority", list)


def test_ending_a_child_that_works_leaves_no_process(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", HANGS)
    analysis = Analysis(directory)
    pid = pid_in(tmp_path / "bin")

    analysis.end()
    analysis.end()

    assert not runs(pid)


@pytest.mark.parametrize("executable", ["", None, "/nowhere/python"])
def test_an_interpreter_that_can_not_be_started_is_a_reason(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", executable)

    with pytest.raises(AnalysisError, match="no executable to start"):
        Analysis(directory)


def test_larger_traces_get_more_time() -> None:
    assert longest_wait_s(0.0) == 30.0
    assert longest_wait_s(200.0) == 130.0
