from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.live.analyst import Analyst
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import RunDirectory
from tests.live.children import (
    CRASHES,
    HANGS,
    IS_KILLED,
    LEAVES_NOTHING,
    lost_window,
    names,
    pid_in,
    play_interpreter,
    runs,
    steps,
    with_trace,
)

MEASURED = Evidence(steps=steps(), notes=("measured",), missing=dict.fromkeys(("run", "syncs"), "not this time"))
FAILURES = [CRASHES, IS_KILLED, LEAVES_NOTHING, HANGS]


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def new_analyst(directory: RunDirectory | None, arguments: Sequence[str] | None = ()) -> Analyst:
    return Analyst(directory, None if arguments is None else list(arguments), None, ())


def until_finished(analyst: Analyst) -> Report | None:
    for _ in range(6000):
        report = analyst.finished()
        if report is not None or analyst._running is None:
            return report
        time.sleep(0.01)
    raise AssertionError("the analysis did not end")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_window_is_analysed_while_training_goes_on_and_everything_again_at_the_end(
    directory: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    evidence = with_trace(directory.path, notes=("after the window",))
    analyst = new_analyst(directory)
    assert analyst.finished() is None

    start_s = time.monotonic()
    analyst.begin(evidence)
    assert analyst.finished() is None
    assert time.monotonic() - start_s < 1.0
    by_window = until_finished(analyst)
    at_the_end = analyst.conclude(replace(evidence, notes=("at the end",)))

    assert by_window is not None
    assert by_window.notes == ("after the window",)
    assert by_window.window_s is not None
    assert analyst.finished() is None
    assert at_the_end.notes == ("at the end",)
    assert at_the_end.window_s == by_window.window_s
    assert at_the_end == directory.read_report()
    assert warnings(caplog) == []


def test_the_end_waits_for_the_window_that_is_still_analysed(
    directory: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    evidence = with_trace(directory.path)
    analyst = new_analyst(directory)
    analyst.begin(evidence)

    report = analyst.conclude(evidence)

    assert report.window_s is not None
    assert report.windows[0].trace is not None
    assert report.windows[0].trace.endswith(".gz")
    assert not [name for name in names(directory.path) if name.endswith(".part")]
    assert warnings(caplog) == []


def test_one_analysis_runs_at_a_time(directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", "echo x >>{here}/starts; echo $$ >{here}/pid; exec sleep 300")
    analyst = new_analyst(directory)
    analyst.begin(MEASURED)
    pid = pid_in(tmp_path / "bin")
    analyst.begin(MEASURED)
    analyst.end()
    analyst.end()

    assert (tmp_path / "bin" / "starts").read_text() == "x\n"
    assert not runs(pid)


@pytest.mark.parametrize("script", FAILURES)
def test_a_child_that_fails_is_warned_about_once_and_the_report_holds_what_was_measured(
    directory: RunDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str,
) -> None:
    play_interpreter(monkeypatch, tmp_path / "bin", script)
    analyst = new_analyst(directory)
    analyst.begin(MEASURED)
    if script is not HANGS:
        assert until_finished(analyst) is None
    report = analyst.conclude(replace(MEASURED, windows=(lost_window(),)), longest_s=0.2)

    assert report.phases["forward"].s_per_step == pytest.approx(0.01)
    assert report.notes == ("measured",)
    assert report.directory == str(directory.path)
    assert report.skipped["host-sync"].startswith("not this time")
    assert directory.read_report() == report
    (warning,) = warnings(caplog)
    assert warning.startswith("PerfWatch: the analysis failed: it")
    assert warning.endswith(f"; to try again: perfwatch analyze {directory.path}.")
    if script is HANGS:
        assert not runs(pid_in(tmp_path / "bin"))


def test_a_child_that_can_not_be_started_is_warned_about_once(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    analyst = new_analyst(directory)
    analyst.begin(MEASURED)
    analyst.begin(MEASURED)

    report = analyst.conclude(MEASURED)

    assert report.notes == ("measured",)
    assert directory.read_report() == report
    assert warnings(caplog) == ["PerfWatch: the trace is not analysed: this interpreter has no executable to start."]


def test_a_directory_that_can_not_be_written_any_more_still_gives_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").write_text("a file where the directory was")
    analyst = new_analyst(RunDirectory(tmp_path / "run"))

    report = analyst.conclude(MEASURED)

    assert report.notes == ("measured",)
    (warning,) = warnings(caplog)
    assert warning.startswith("PerfWatch: the trace is not analysed: ")


def test_without_a_directory_nothing_is_started_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", "")
    analyst = new_analyst(None)
    analyst.begin(MEASURED)

    report = analyst.conclude(MEASURED)

    assert (report.notes, report.directory) == (("measured",), None)
    assert names(tmp_path) == []
    assert warnings(caplog) == []


@dataclass(frozen=True)
class Mine(Rule):
    """Found in this process only."""

    needs: ClassVar[tuple[str, ...]] = ("steps",)

    def check(self, evidence: Evidence) -> list[Finding]:
        finding = Finding(rule="mine", severity=Severity.INFO, share=None, summary="Mine.", advice="Keep it.")
        return [finding]


def test_rules_that_exist_here_only_are_asked_here_when_training_has_ended(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    evidence = with_trace(directory.path)
    monkeypatch.setattr(sys, "executable", "")
    analyst = Analyst(directory, None, [Mine()], ())
    analyst.begin(evidence)
    assert analyst.finished() is None

    report = analyst.conclude(evidence)

    assert [finding.summary for finding in report.findings] == ["Mine."]
    assert report.window_s is not None
    assert directory.read_report() == report
    assert warnings(caplog) == []


def test_a_failure_of_the_analysis_in_this_process_leaves_what_was_measured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").write_text("a file where the directory was")
    analyst = Analyst(RunDirectory(tmp_path / "run"), None, [Mine()], ())

    report = analyst.conclude(MEASURED)

    assert [finding.summary for finding in report.findings] == ["Mine."]
    (warning,) = warnings(caplog)
    assert warning.startswith("PerfWatch: the analysis failed: ")
