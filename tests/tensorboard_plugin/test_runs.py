from __future__ import annotations

from pathlib import Path

import pytest

from lightning_perfwatch.report import Report
from lightning_perfwatch.tensorboard_plugin import runs as runs_module
from lightning_perfwatch.tensorboard_plugin.runs import Run, RunFinder, roots
from tests.tensorboard_plugin.serving import store


def names(below: Path) -> list[str]:
    return list(RunFinder({"": below}).runs())


def test_an_empty_or_missing_log_directory_has_no_runs(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    assert names(tmp_path / "nothing here") == []


def test_runs_are_named_by_their_path_from_the_log_directory(tmp_path: Path) -> None:
    store(tmp_path / "logs" / "version_0" / "perfwatch", Report())
    store(tmp_path / "speed", Report())
    store(tmp_path / "speed" / "again" / "perfwatch", Report())

    found = RunFinder({"": tmp_path}).runs()
    assert {run.name: run.title for run in found.values()} == {
        "speed": "speed",
        "speed/again/perfwatch": "speed/again",
        "logs/version_0/perfwatch": "logs/version_0",
    }


def test_a_log_directory_can_be_a_run_directory_itself(tmp_path: Path) -> None:
    store(tmp_path, Report())

    assert names(tmp_path) == ["."]


def test_a_report_of_another_program_is_no_run_unless_it_lies_where_perfwatchs_does(tmp_path: Path) -> None:
    for folder in ("coverage", "perfwatch", "chosen"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "report.json").write_text('{"lines": 12}')
    (tmp_path / "chosen" / "evidence.json").write_text("{}")

    assert names(tmp_path) == ["chosen", "perfwatch"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    store(tmp_path / "elsewhere" / "perfwatch", Report())
    logs = tmp_path / "logs"
    (logs / "perfwatch").mkdir(parents=True)
    (logs / "version_0").symlink_to(tmp_path / "elsewhere")
    (logs / "up").symlink_to(logs)
    (logs / "perfwatch" / "report.json").symlink_to(tmp_path / "elsewhere" / "perfwatch" / "report.json")

    assert names(logs) == []


def test_a_file_behind_a_link_belongs_to_no_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    inside = tmp_path / "logs" / "perfwatch"
    store(inside, Report())
    (inside / "linked.report.json").symlink_to(secret)
    run = Run("perfwatch", tmp_path / "logs", inside)

    assert run.holds(inside / "report.json")
    assert not run.holds(inside / "linked.report.json")
    assert not run.holds(inside / ".." / ".." / "secret.json")
    assert not run.holds(secret)


def test_the_walk_ends_at_its_bounds_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        store(tmp_path / f"run{number}", Report())
    store(tmp_path / "run0" / "a" / "b" / "deep", Report())
    finder = RunFinder({"": tmp_path})
    assert len(finder.runs()) == 6 and not finder.is_cut

    for bound, value, expected in (("MOST_RUNS", 3, 3), ("MOST_DIRECTORIES", 4, 3), ("MOST_DEPTH", 2, 5)):
        with monkeypatch.context() as bounded:
            bounded.setattr(runs_module, bound, value)
            finder = RunFinder({"": tmp_path})
            assert len(finder.runs()) == expected, bound
            assert finder.is_cut, bound


def test_a_walk_is_not_repeated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = RunFinder({"": tmp_path})
    assert finder.runs() == {}
    store(tmp_path / "new", Report())
    assert finder.runs() == {}

    monkeypatch.setattr(finder, "_next_s", 0.0)
    assert list(finder.runs()) == ["new"]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("", {}),
        ("here", {"here": Path("here")}),
        ("/a/b", {"a/b": Path("/a/b")}),
        ("old:/a/b,new:c", {"old": Path("/a/b"), "new": Path("c")}),
        ("/odd:name/b", {"odd:name/b": Path("/odd:name/b")}),
        (":/a", {":/a": Path(":/a")}),
    ],
)
def test_a_spec_names_several_log_directories(spec: str, found: dict[str, Path]) -> None:
    assert roots(None, spec) == found
    assert roots("", spec) == found


def test_with_a_log_directory_the_spec_does_not_count() -> None:
    assert roots("logs", "old:/a") == {"": Path("logs")}


def test_runs_of_a_spec_carry_its_names(tmp_path: Path) -> None:
    store(tmp_path / "a" / "perfwatch", Report())
    store(tmp_path / "b", Report())

    assert list(RunFinder({"old": tmp_path / "a", "new": tmp_path / "b"}).runs()) == ["old/perfwatch", "new"]
