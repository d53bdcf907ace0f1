from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightning_perfwatch import cli
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.report import Report, to_json
from lightning_perfwatch.run_directory import RunDirectory
from tests.comparison.factories import run
from tests.test_cli import refused, told


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "before", tmp_path / "after"
    for path, factor in zip(paths, (1.0, 0.5), strict=True):
        RunDirectory(path).write_report(run(*(factor * (1.0 + 0.01 * (i % 3)) for i in range(8))))
    return paths


def test_two_run_directories_are_set_side_by_side(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    shown = told("compare", *pair, capsys=capsys)

    assert shown.startswith("PerfWatch  2.00x as fast in tokens/s (95 % interval")
    assert str(pair[0]) in shown
    assert str(pair[1]) in shown


def test_report_files_are_the_same_as_their_directories(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [path / "report.json" for path in pair]

    def figures(*paths: Path) -> object:
        document = json.loads(told("compare", *paths, "--format", "json", capsys=capsys))
        return document["speed"], document["before"]["num_steps"]

    assert figures(*files) == figures(*pair)


def test_the_same_run_twice_is_no_difference(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert "exactly no difference" in told("compare", pair[0], pair[0], capsys=capsys)
    assert "exactly no difference" in told("compare", pair[0], pair[0] / "report.json", capsys=capsys)


def test_the_ending_of_the_output_says_the_format(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, start in (("c.html", "<!doctype html>"), ("c.md", "## PerfWatch"), ("c.json", "{"), ("c", "PerfWatch")):
        assert told("compare", *pair, "-o", tmp_path / name, capsys=capsys) == ""
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert told("compare", *pair, "--format", "markdown", capsys=capsys).startswith("## PerfWatch")


def broken(kind: str, folder: Path) -> Path:
    """A path that is no report, of each kind that people name."""
    path = folder / "bad"
    contents: dict[str, bytes] = {
        "empty file": b"",
        "no JSON": b"PK\x03\x04",
        "other JSON": b'{"traceEvents": []}',
        "list": b"[1, 2]",
        "other schema version": b'{"schema_version": 99}',
        "field of another type": b'{"schema_version": 1, "run": 3}',
        "NaN": b'{"schema_version": 1, "window_s": NaN}',
        "infinite": b'{"schema_version": 1, "window_s": 1e999}',
        "cut off": to_json(run()).encode()[:500],
        "figure that is null": to_json(run()).encode().replace(b'"p50":', b'"p50": null, "p51":'),
    }
    if kind in contents:
        path.write_bytes(contents[kind])
    elif kind == "directory without a report":
        path.mkdir()
    elif kind == "directory above a run":
        RunDirectory(path / "perfwatch").write_report(run())
    elif kind == "run without a report":
        RunDirectory(path).write_evidence(Evidence())
    elif kind == "empty report":
        RunDirectory(path).write_report(Report())
    else:
        assert kind == "missing"
    return path


REMEDIES = {
    "missing": "No such file or directory",
    "empty file": "no PerfWatch report",
    "no JSON": "no PerfWatch report",
    "other JSON": "schema version None and 1 is needed",
    "list": "schema version None and 1 is needed",
    "other schema version": "schema version 99 and 1 is needed",
    "field of another type": "no PerfWatch report",
    "NaN": "no PerfWatch report",
    "infinite": "no PerfWatch report",
    "cut off": "no PerfWatch report",
    "figure that is null": "no PerfWatch report",
    "directory without a report": "holds no report.json: name a run directory",
    "directory above a run": "which does",
    "run without a report": "make it with perfwatch analyze",
    "empty report": "holds neither a run nor a trace",
}


@pytest.mark.parametrize("kind", REMEDIES)
def test_what_is_no_report_is_refused_in_a_sentence_that_names_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good", broken(kind, tmp_path)
    RunDirectory(good).write_report(run())

    for paths in ((good, bad), (bad, good), (bad, bad)):
        sentence = refused("compare", *paths, capsys=capsys)
        assert str(bad) in sentence
        assert REMEDIES[kind] in sentence


def test_an_output_that_can_not_be_written_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path, tmp_path / "absent" / "c.html"):
        assert str(place) in refused("compare", *pair, "-o", place, capsys=capsys)


def test_an_empty_run_is_compared_as_far_as_it_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No interval, but steps: what is known is shown, and what can't be told is said."""
    RunDirectory(tmp_path / "a").write_report(run())
    RunDirectory(tmp_path / "b").write_report(run(1.0))

    assert "8 and 1 throughput intervals are too few" in told("compare", tmp_path / "a", tmp_path / "b", capsys=capsys)


@pytest.mark.parametrize("arguments", [["compare"], ["compare", "a"], ["compare", "a", "b", "--format", "pdf"]])
def test_a_bad_argument_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in refused(*arguments, capsys=capsys)


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("compare", "check"):
        assert cli.main([command, "--help"]) == cli.EXIT_OK
        assert command in capsys.readouterr().out
