from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lightning_perfwatch import cli
from lightning_perfwatch.baseline import read_baseline
from lightning_perfwatch.commands.check import EXIT_FAILED
from lightning_perfwatch.finding import Severity, Where
from lightning_perfwatch.report import Report, to_json
from lightning_perfwatch.run_directory import RunDirectory
from tests.commands.test_compare import REMEDIES, broken
from tests.comparison.factories import run
from tests.comparison.test_pace import at_pace
from tests.reporters.factories import finding, run_info
from tests.test_cli import refused, told


def timed(factor: float) -> Report:
    return run(*(factor * (1.0 + 0.01 * (i % 3)) for i in range(8)))


def stored(path: Path, report: Report) -> Path:
    RunDirectory(path).write_report(report)
    return path


@pytest.fixture
def baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Ten runs that differ by some thousandths."""
    path = tmp_path / "ci" / "baseline.json"
    for number in range(10):
        run_dir = stored(tmp_path / f"run{number}", timed(1.0 + 0.002 * (number % 3) + 1e-6 * number))
        told("check", run_dir, "--baseline", path, "--update", capsys=capsys)
    return path


def failed(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main([str(argument) for argument in arguments]) == EXIT_FAILED
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_update_makes_the_file_and_its_folder_and_counts_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "baseline.json"
    first, second = stored(tmp_path / "a", timed(1.0)), stored(tmp_path / "b", timed(1.01))

    assert "now holds 1 comparable run." in told("check", first, "--baseline", path, "--update", capsys=capsys)
    assert "now holds 2 comparable runs." in told("check", second, "--baseline", path, "--update", capsys=capsys)
    assert len(read_baseline(path)) == 2


def test_the_same_run_is_added_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, run_dir = tmp_path / "baseline.json", stored(tmp_path / "a", timed(1.0))
    told("check", run_dir, "--baseline", path, "--update", capsys=capsys)
    before = path.read_bytes()

    again = told("check", run_dir, "--baseline", path, "--update", capsys=capsys)

    assert f"This run is in {path} already." in again
    assert path.read_bytes() == before
    assert "the only one of its kind in the baseline" in told("check", run_dir, "--baseline", path, capsys=capsys)


def test_a_run_as_fast_as_the_baseline_passes(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told("check", stored(tmp_path / "r", timed(1.003)), "--baseline", baseline, capsys=capsys)

    assert shown.startswith("PerfWatch check ok: ")
    assert "no measurable difference" in shown


def test_a_slower_run_fails_with_the_reason_and_is_not_added(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, before = stored(tmp_path / "r", timed(1.1)), baseline.read_bytes()

    shown = failed("check", slow, "--baseline", baseline, capsys=capsys)
    assert "Too slow: the same work takes 9." in shown or "Too slow: the same work takes 10 % longer" in shown
    assert "more than the 5 % allowed" in shown
    assert "Not added to the baseline: to hold this speed from now on, update with --accept." in failed(
        "check", slow, "--baseline", baseline, "--update", capsys=capsys
    )
    assert baseline.read_bytes() == before


def test_a_slower_run_is_accepted_and_its_kind_starts_anew(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = stored(tmp_path / "e", replace(timed(1.0), run=run_info(device_name="Another CPU")))
    told("check", elsewhere, "--baseline", baseline, "--update", capsys=capsys)
    slow = stored(tmp_path / "r", timed(1.2))

    shown = told("check", slow, "--baseline", baseline, "--update", "--accept", capsys=capsys)
    assert "starts anew: the runs before were faster" in shown
    assert len(read_baseline(baseline)) == 2
    alike = stored(tmp_path / "s", timed(1.21))
    assert "now holds 2 comparable runs" in told(
        "check", alike, "--baseline", baseline, "--update", "--accept", capsys=capsys
    )
    assert "give both" in refused("check", slow, "--baseline", baseline, "--accept", capsys=capsys)


def test_a_run_that_fails_by_a_finding_is_told_so(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replace(timed(1.0015), findings=(finding(rule="host-sync"),))
    run_dir = stored(tmp_path / "r", found)

    for more in ((), ("--accept",)):
        shown = failed(
            "check", run_dir, "--baseline", baseline, "--update", "--fail-on", "host-sync,", *more, capsys=capsys
        )
        assert "Not added to the baseline: it has findings." in shown


def test_a_baseline_that_is_a_link_stays_one(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(baseline)

    told("check", stored(tmp_path / "r", timed(1.0015)), "--baseline", link, "--update", capsys=capsys)

    assert link.is_symlink()
    assert len(read_baseline(baseline)) == 11


def test_values_nested_without_end_are_refused(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    run_dir = stored(tmp_path / "r", timed(1.0))

    assert "nested too deeply" in refused("check", run_dir, "--baseline", deep, capsys=capsys)
    assert "nested too deeply" in refused("check", deep, "--baseline", baseline, capsys=capsys)


def test_what_holds_no_run_does_not_pass(baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"schema_version": 1}')

    for path in (empty, baseline):
        assert "neither a run nor a trace" in refused("check", path, "--fail-on", "host-sync", capsys=capsys)


def test_the_threshold_is_the_users(baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = stored(tmp_path / "r", timed(1.1))

    for allowed in ("12", "12%", "12.5"):
        assert "within the 12" in told("check", slow, "--baseline", baseline, "--max-slowdown", allowed, capsys=capsys)
    failed("check", slow, "--baseline", baseline, "--max-slowdown", "0", capsys=capsys)


@pytest.mark.parametrize("value", ["much", "nan", "inf", "-1", ""])
def test_a_threshold_that_is_no_percentage_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "a percentage such as 5" in refused("check", "r", f"--max-slowdown={value}", capsys=capsys)


def test_a_faster_run_starts_the_baseline_anew(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = stored(tmp_path / "r", timed(0.7))

    assert "add it to the baseline with --update" in told("check", fast, "--baseline", baseline, capsys=capsys)
    assert "starts anew" in told("check", fast, "--baseline", baseline, "--update", capsys=capsys)
    assert len(read_baseline(baseline)) == 1


def test_a_baseline_of_another_machine_is_no_pass(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = stored(tmp_path / "r", replace(timed(1.0), run=run_info(device_name="Another CPU")))

    assert "device Some CPU there and Another CPU here" in refused(
        "check", other, "--baseline", baseline, capsys=capsys
    )
    assert "holds 1 comparable run." in told("check", other, "--baseline", baseline, "--update", capsys=capsys)
    assert "the only one of its kind" in told("check", other, "--baseline", baseline, capsys=capsys)
    assert len(read_baseline(baseline)) == 11


def test_named_rules_and_severities_fail_without_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = finding(rule="host-sync", severity=Severity.CRITICAL)
    run_dir = stored(tmp_path / "r", run(findings=(found,), skipped={"gc-pause": "not watched"}))

    assert "host-sync (critical" in failed("check", run_dir, "--fail-on", "gc-pause,host-sync", capsys=capsys)
    assert "--max-severity warning" in failed("check", run_dir, "--max-severity", "warning", capsys=capsys)
    assert "gc-pause did not judge: not watched." in told("check", run_dir, "--fail-on", "gc-pause", capsys=capsys)
    told("check", run_dir, "--max-severity", "critical", capsys=capsys)


def test_an_unknown_rule_is_refused_with_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = stored(tmp_path / "r", run(findings=(finding(rule="small-batch"),)))

    assert cli.main(["check", str(run_dir), "--fail-on", "host-sinc"]) == cli.EXIT_UNREADABLE
    assert capsys.readouterr().err == "perfwatch: Unknown rule 'host-sinc': did you mean 'host-sync'?\n"
    failed("check", run_dir, "--fail-on", "small-batch", capsys=capsys)  # a rule of the user's own


def test_annotations_are_relative_to_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    found = finding(rule="host-sync", where=Where(file=str(tmp_path / "src" / "train.py"), line=3))
    run_dir = stored(tmp_path / "r", run(findings=(found,)))

    shown = failed("check", run_dir, "--fail-on", "host-sync", "--format", "github", capsys=capsys)
    assert shown.startswith("::error file=src/train.py,line=3,title=PerfWatch host-sync::")


def test_json_says_the_same(baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = stored(tmp_path / "r", timed(1.2))
    document = json.loads(failed("check", run_dir, "--baseline", baseline, "--format", "json", capsys=capsys))

    assert document["ok"] is False
    assert document["slowdown"]["num_runs"] == 10
    assert document["slowdown"]["share"] == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("kind", [kind for kind in REMEDIES if kind != "empty report"])
def test_a_run_that_is_no_report_is_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, path = broken(kind, tmp_path), tmp_path / "baseline.json"

    for options in (["--update"], []):
        stored(tmp_path / "good", timed(1.0))
        told("check", tmp_path / "good", "--baseline", path, "--update", capsys=capsys)
        sentence = refused("check", bad, "--baseline", path, *options, capsys=capsys)
        assert str(bad) in sentence
        assert REMEDIES[kind] in sentence


@pytest.mark.parametrize(
    "report", [Report(run=run_info()), run(1.0, 1.0, 1.0), run(1.0)], ids=["empty", "three", "one"]
)
def test_a_run_without_enough_intervals_is_no_pass_and_no_baseline(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, path = stored(tmp_path / "r", report), tmp_path / "baseline.json"

    assert "throughput intervals and 6 are needed" in refused(
        "check", run_dir, "--baseline", path, "--update", capsys=capsys
    )
    assert not path.exists()


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"schema_version": 9, "runs": []}', to_json(run()).encode()]
)
def test_a_file_that_is_no_baseline_is_refused_and_kept(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, path = stored(tmp_path / "r", timed(1.0)), tmp_path / "baseline.json"
    path.write_bytes(content)

    for options in ([], ["--update"]):
        assert "is no baseline of perfwatch check" in refused(
            "check", run_dir, "--baseline", path, *options, capsys=capsys
        )
    assert path.read_bytes() == content


def test_a_baseline_that_is_not_there_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = stored(tmp_path / "r", timed(1.0))

    assert "does not exist: record a baseline there with --update" in refused(
        "check", run_dir, "--baseline", tmp_path / "absent.json", capsys=capsys
    )


def test_a_baseline_that_can_not_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = stored(tmp_path / "r", timed(1.0))

    for place in (tmp_path, run_dir / "report.json" / "b.json"):
        assert str(place.parent) in refused("check", run_dir, "--baseline", place, "--update", capsys=capsys)


def test_a_check_needs_something_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = stored(tmp_path / "r", timed(1.0))

    for options in ([], ["--update"], ["--update", "--fail-on", "host-sync"]):
        assert "Name a baseline with --baseline FILE" in refused("check", run_dir, *options, capsys=capsys)


def test_a_run_that_is_fast_for_its_slow_machine_starts_no_baseline_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "baseline.json"
    for number in range(10):
        pace = 1 + 0.02 * number
        told("check", stored(tmp_path / f"r{number}", at_pace(timed(pace), pace)), "--baseline", path, "--update",
             capsys=capsys)  # fmt: skip
    slow_but_better = stored(tmp_path / "now", at_pace(timed(1.25), 1.6))

    shown = told("check", slow_but_better, "--baseline", path, "--update", capsys=capsys)

    assert "less time than expected at the machine's pace" in shown
    assert "now holds 11 comparable runs." in shown
