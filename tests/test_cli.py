from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lightning_perfwatch import cli, rules
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding
from lightning_perfwatch.report import Report, from_json, to_json
from lightning_perfwatch.reporters import progress
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import RunDirectory
from tests.reporters.factories import finding, report
from tests.test_run_directory import trace_text, window


@dataclass(frozen=True)
class SlowThing(Rule):
    """A thing is slow.

    Fix: make it ``fast``.
    """

    warning_share: float = 0.1
    num_steps: int = 3
    label: str = "thing"

    @classmethod
    def id(cls) -> str:
        return "slow-thing"

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield finding(rule=self.id(), share=self.warning_share, evidence={"num_steps": self.num_steps})


@dataclass(frozen=True)
class OtherThing(Rule):
    """Another thing is slow."""

    needs = ("steps",)

    @classmethod
    def id(cls) -> str:
        return "other-thing"


@pytest.fixture(autouse=True)
def two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = {"other-thing": OtherThing, "slow-thing": SlowThing}
    monkeypatch.setattr(rules, "all_rules", lambda: stand_ins)
    monkeypatch.setattr("lightning_perfwatch.diagnosis.all_rules", lambda: stand_ins)


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "w.1.pt.trace.json.gz"
    path.write_bytes(gzip.compress(trace_text(3)))
    return path


@pytest.fixture
def run_directory(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "perfwatch")
    directory.write_evidence(Evidence(windows=(window("w.pt.trace.json"),)))
    (directory.path / "w.pt.trace.json").write_bytes(trace_text(3))
    return directory


def told(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says on stdout when all goes well."""
    assert cli.main([str(argument) for argument in arguments]) == cli.EXIT_OK
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which the command refuses."""
    assert cli.main([str(argument) for argument in arguments]) == cli.EXIT_UNREADABLE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("perfwatch: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    return err.removeprefix("perfwatch: ").rstrip("\n")


def found(text: str) -> Report:
    return from_json(text)


def test_a_run_directory_is_analysed_and_its_report_and_page_are_stored(
    run_directory: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told("analyze", run_directory.path, capsys=capsys)

    assert "slow-thing" in shown
    assert "aten::mm" in shown
    assert run_directory.page_file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert told("report", run_directory.path, capsys=capsys) == shown


def test_a_trace_alone_is_analysed_and_nothing_is_written(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(told("analyze", trace_file, "--format", "json", capsys=capsys))

    assert document["window_s"] > 0
    assert document["devices"] == []
    assert document["throughput"]["tokens_per_s"] is None
    assert document["skipped"] == {"other-thing": "a trace alone does not tell"}
    assert list(trace_file.parent.iterdir()) == [trace_file]


def test_a_folder_with_one_trace_stands_for_the_trace(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = told("analyze", trace_file, capsys=capsys)

    assert told("analyze", trace_file.parent, capsys=capsys) == alone


def test_several_traces_are_shown_as_ranks_whether_named_or_in_a_folder(
    trace_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = trace_file.with_name("a.2.pt.trace.json")
    second.write_bytes(trace_text())

    in_folder = told("analyze", trace_file.parent, "--format", "json", capsys=capsys)

    assert told("analyze", trace_file, second, "--format", "json", capsys=capsys) == in_folder
    assert [rank.trace for rank in found(in_folder).ranks] == [str(second), str(trace_file)]
    for format_ in ("text", "markdown", "html"):
        shown = told("analyze", trace_file.parent, "--format", format_, capsys=capsys)
        assert "2 traces alone, rank 0 in detail" in shown
        assert second.name in shown


def test_a_report_of_a_trace_names_its_file(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(told("analyze", trace_file, "--format", "json", capsys=capsys)).source == str(trace_file)
    assert str(trace_file) in told("analyze", trace_file, capsys=capsys)


def test_no_progress_is_shown_in_a_pipe_nor_in_the_background(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "nice", lambda increment: increment)
    shown: list[str] = []

    class Line(contextlib.nullcontext[None]):
        def __init__(self, stream: object, describe: Callable[[], str]) -> None:
            super().__init__()
            shown.append(describe())

    monkeypatch.setattr(progress, "ProgressLine", Line)
    told("analyze", trace_file, capsys=capsys)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told("analyze", trace_file, "--background", capsys=capsys)
    assert shown == []

    told("analyze", trace_file, capsys=capsys)
    assert shown == [f"{trace_file.name} (0 MB)"]


@pytest.mark.parametrize(
    ("format_", "start"),
    [("text", "PerfWatch"), ("json", "{"), ("html", "<!doctype html>"), ("markdown", "## PerfWatch")],
)
def test_every_format_goes_to_stdout_or_into_a_file(
    format_: str, start: str, run_directory: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told("analyze", run_directory.path, capsys=capsys)
    shown = told("report", run_directory.path, "--format", format_, capsys=capsys)

    assert told("report", run_directory.path, "--format", format_, "-o", tmp_path / "r", capsys=capsys) == ""
    assert shown.startswith(start)
    assert (tmp_path / "r").read_text(encoding="utf-8") == shown


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("r.html", "html"),
        ("r.HTM", "html"),
        ("r.md", "markdown"),
        ("r.of.markdown", "markdown"),
        ("r.json", "json"),
        ("r.txt", "text"),
        ("html", "text"),
        (".json", "text"),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_the_files_ending_chooses_the_format(
    command: str,
    name: str,
    format_: str,
    run_directory: RunDirectory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = told("analyze", run_directory.path, "--format", format_, capsys=capsys)

    assert told(command, run_directory.path, "-o", tmp_path / name, capsys=capsys) == ""
    assert (tmp_path / name).read_text(encoding="utf-8") == expected


def test_a_format_that_is_named_wins_over_the_files_ending(
    trace_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told("analyze", trace_file, "-o", tmp_path / "r.html", "--format", "json", capsys=capsys)

    assert found((tmp_path / "r.html").read_text(encoding="utf-8")).source == str(trace_file)


def test_a_report_that_was_moved_says_where_it_lies_now(
    run_directory: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told("analyze", run_directory.path, capsys=capsys)
    moved = run_directory.path.rename(tmp_path / "elsewhere")

    assert f"{moved}{os.sep}report.json" in told("report", moved, capsys=capsys)


def test_an_ignored_rule_says_nothing(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ignore = ("--ignore", "slow-thing", "--ignore", "other-thing", "--format", "json")
    analysed = found(told("analyze", trace_file, *ignore, capsys=capsys))

    assert analysed.findings == ()
    assert set(analysed.skipped.values()) == {"the settings leave it out"}


def test_a_narrower_look_at_a_run_does_not_replace_its_report(
    run_directory: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    told("analyze", run_directory.path, capsys=capsys)
    stored = run_directory.report_file.read_bytes(), run_directory.page_file.read_bytes()

    ignoring = ("--ignore", "slow-thing", "--format", "json")
    narrower = found(told("analyze", run_directory.path, *ignoring, capsys=capsys))

    assert narrower.skipped["slow-thing"] == "the settings leave it out"
    assert (run_directory.report_file.read_bytes(), run_directory.page_file.read_bytes()) == stored


def test_a_named_rule_limits_the_run_and_a_threshold_does_not(
    trace_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json = ("analyze", trace_file, "--format", "json")
    limited = found(told(*as_json, "--rule", "other-thing", capsys=capsys))
    set_only = found(
        told(
            *as_json,
            "--rule",
            "slow-thing.warning_share=0.25",
            "--rule=slow-thing.num_steps=7",
            capsys=capsys,
        )
    )

    assert limited.findings == ()
    assert limited.skipped["slow-thing"] == "the settings leave it out"
    assert limited.skipped["other-thing"] == "a trace alone does not tell"
    assert (set_only.findings[0].share, set_only.findings[0].evidence) == (0.25, {"num_steps": 7})
    assert list(set_only.skipped) == ["other-thing"]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("slow-thin", "Unknown rule 'slow-thin': did you mean 'slow-thing'?"),
        ("slow-thin.x=1", "Unknown rule 'slow-thin': did you mean 'slow-thing'?"),
        (
            "slow-thing.warnin_share=1",
            "Unknown threshold of slow-thing 'warnin_share': did you mean 'warning_share'?",
        ),
        ("slow-thing.warning_share=much", "slow-thing.warning_share must be a number, got 'much'."),
        ("slow-thing.warning_share=", "slow-thing.warning_share must be a number, got ''."),
        ("slow-thing.warning_share=nan", "slow-thing.warning_share must be a number, got nan."),
        ("slow-thing.num_steps=2.5", "slow-thing.num_steps must be a whole number, got 2.5."),
        ("slow-thing.label=x", "slow-thing.label is no number and can't be set, got 'x'."),
        ("slow-thing=1", "--rule takes ID or ID.FIELD=VALUE, got 'slow-thing=1'."),
    ],
)
def test_a_bad_rule_option_is_refused_with_the_remedy(
    option: str, sentence: str, trace_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["analyze", str(trace_file), "--rule", option]) == cli.EXIT_UNREADABLE
    assert capsys.readouterr() == ("", f"perfwatch: {sentence}\n")


def test_thresholds_from_a_config_are_checked_the_same_way() -> None:
    assert rules.build_rules({"slow-thing": {"warning_share": 1}}) == (
        OtherThing(),
        SlowThing(warning_share=1.0),
    )
    with pytest.raises(ValueError, match="must be a number, got True"):
        rules.build_rules({"slow-thing": {"warning_share": True}})
    with pytest.raises(ValueError, match="Unknown threshold of other-thing 'x': there is none"):
        rules.build_rules({"other-thing": {"x": 1}})


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\xff\xfe" * 300, b"{", b"[1, 2", b"\x1f\x8b\x08\x00broken", b'{"a": 1}', b"[" * 100_000],
    ids=["empty", "binary", "brace", "cut", "gzip", "other json", "deep"],
)
@pytest.mark.parametrize("name", ["t.pt.trace.json", "t.pt.trace.json.gz", "t.bin"])
def test_what_is_no_trace_is_refused(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)

    assert name in refused("analyze", tmp_path / name, capsys=capsys)


@pytest.mark.parametrize("command", ["analyze", "report"])
def test_what_is_not_there_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent" in refused(command, tmp_path / "absent", capsys=capsys)
    assert str(tmp_path) in refused(command, tmp_path, capsys=capsys)


def test_the_log_directory_above_a_run_directory_gets_a_hint(
    run_directory: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["analyze", str(run_directory.path.parent)]) == cli.EXIT_UNREADABLE
    assert f"did you mean {run_directory.path}?" in capsys.readouterr().err
    run_directory.report_file.write_text("{}")
    assert f"name {run_directory.path}, which does" in refused("report", run_directory.path.parent, capsys=capsys)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"schema_version": 99}', b'{"schema_version": 1, "run": 3}']
)
def test_stored_json_of_another_kind_is_refused(
    content: bytes, run_directory: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    run_directory.evidence_file.write_bytes(content)
    run_directory.report_file.write_bytes(content)

    assert refused("analyze", run_directory.path, capsys=capsys).startswith("This is no evidence")
    assert refused("report", run_directory.path, capsys=capsys).startswith(
        f"{run_directory.report_file}: This is no PerfWatch report"
    )


def test_an_output_that_can_not_be_written_is_refused(
    trace_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path, tmp_path / "absent" / "r.json", trace_file / "r.json"):
        assert str(place) in refused("analyze", trace_file, "-o", place, capsys=capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["analyse"],
        ["analyze"],
        ["analyze", "x", "--format", "pdf"],
        ["rules", "x"],
        ["explain"],
        ["report", "--for"],
    ],
)
def test_a_bad_argument_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in refused(*arguments, capsys=capsys)


def test_an_unknown_rule_is_refused_with_the_nearest(trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["explain", "slow-things"], ["analyze", str(trace_file), "--ignore", "slow-things"]):
        assert cli.main(arguments) == cli.EXIT_UNREADABLE
        assert capsys.readouterr().err == ("perfwatch: Unknown rule 'slow-things': did you mean 'slow-thing'?\n")


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert "analyze" in told("--help", capsys=capsys)


def test_rules_are_listed_one_a_line_with_their_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("rules", capsys=capsys) == "other-thing  Another thing is slow.\nslow-thing   A thing is slow.\n"


def test_a_rule_is_explained_by_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("explain", "slow-thing", capsys=capsys) == "A thing is slow.\n\nFix: make it `fast`.\n"


def test_ctrl_c_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, trace_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_analysis", interrupted)

    assert cli.main(["analyze", str(trace_file)]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_the_background_analysis_gives_way_and_a_refusal_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, trace_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def nice(increment: int) -> int:
        asked.append(increment)
        raise PermissionError

    monkeypatch.setattr(os, "nice", nice)

    told("analyze", trace_file, capsys=capsys)
    told("analyze", trace_file, "--background", capsys=capsys)

    assert asked == [10]


def test_an_output_without_unicode_still_gets_the_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_report(report(findings=(finding(summary="Costs 3 µs."),)))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    for format_ in ("text", "json", "markdown", "html"):
        assert cli.main(["report", str(tmp_path), "--format", format_]) == cli.EXIT_OK
    assert raw.getvalue().count(b"Costs 3 us.") == 4


def run_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_a_reader_that_goes_away_costs_no_traceback(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_report(report(notes=("a long note",) * 10_000))
    program = f"{sys.executable} -m lightning_perfwatch report {tmp_path} | head -n 1"

    done = subprocess.run(program, shell=True, capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.startswith("PerfWatch")
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_stdout_is_one_sentence(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_report(report())
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lightning_perfwatch", "report", str(tmp_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == cli.EXIT_UNREADABLE
    assert done.stderr == "perfwatch: No space left on device.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["rules"],
        ["--help"],
        ["report", "DIR"],
        ["analyze", "DIR"],
        ["compare", "DIR", "DIR"],
        ["check", "DIR", "--fail-on", "gc-pause"],
    ],
)
def test_the_command_starts_without_the_heavy_packages(arguments: list[str], run_directory: RunDirectory) -> None:
    run_directory.write_report(report())
    arguments = [str(run_directory.path) if argument == "DIR" else argument for argument in arguments]

    done = run_command("-X", "importtime", "-m", "lightning_perfwatch", *arguments)

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == cli.EXIT_OK
    heavy = {"torch", "lightning", "pytorch_lightning", "omegaconf", "tensorboard", "rich", "jinja2"}
    needed = {"jinja2"} if arguments[0] == "analyze" else set()
    assert loaded & heavy == needed


def test_to_json_is_what_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunDirectory(tmp_path).write_report(report(directory=str(tmp_path)))

    shown = told("report", tmp_path, "--format", "json", capsys=capsys)
    assert shown == to_json(report(directory=str(tmp_path)))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_was_closed_before_is_no_fault(tmp_path: Path, closed: str) -> None:
    trace = tmp_path / "a.pt.trace.json"
    trace.write_bytes(trace_text())
    command = f"{sys.executable} -m lightning_perfwatch analyze"
    done = subprocess.run(f"{command} {trace} {closed}", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    missing = subprocess.run(f"{command} {tmp_path / 'no'} {closed}", shell=True, capture_output=True, check=False)
    assert missing.returncode == 2
    assert b"Traceback" not in missing.stderr


def test_a_trace_comes_through_a_pipe_too() -> None:
    command = f"{sys.executable} -m lightning_perfwatch analyze /dev/stdin --format json"
    for data in (trace_text(), gzip.compress(trace_text())):
        done = subprocess.run(command, shell=True, input=data, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["top_ops"]


def test_too_little_memory_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr("lightning_perfwatch.bare_trace.read_trace", exhausted)
    assert cli.main(["analyze", str(tmp_path / "a.json")]) == 2
    assert capsys.readouterr().err.startswith("perfwatch: There is not enough memory")
