"""The tab's server side in the real TensorBoard, over HTTP."""

from __future__ import annotations

import importlib
import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lightning_perfwatch import report as report_json
from lightning_perfwatch.measurements import LoaderInfo, Window
from lightning_perfwatch.tensorboard_plugin import brief as brief_module
from lightning_perfwatch.tensorboard_plugin.plugin import PerfWatchPlugin
from tests.reporters.factories import hostile_report, report
from tests.tensorboard_plugin.serving import Board, store, tensorboard

ROOT = Path(__file__).parents[2]
FIRST, SECOND = "rank0.1.pt.trace.json.gz", "rank0.2.pt.trace.json.gz"
WINDOWS = (
    Window(first_step=4, num_steps=3, planned_steps=3, trace=FIRST),
    Window(first_step=20, num_steps=1, planned_steps=3, trace=SECOND, partial=True),
)
FOREIGN = "logs/foreign/perfwatch"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One ordinary run, one with two windows, a foreign report, and a secret beside the log directory."""
    root = tmp_path_factory.mktemp("board")
    (root / "secret.json").write_text('{"schema_version": 1, "secret": true}')
    logs = root / "all" / "logs"
    loader = LoaderInfo("DataLoader", num_workers=4, batch_size=32)
    store(logs / "version_0" / "perfwatch", report(loader=loader))
    windows = store(logs / "version_1" / "perfwatch", report(windows=WINDOWS, trace=SECOND))
    then = report(windows=WINDOWS[:1], trace=FIRST, notes=("as it was then",))
    windows.window_report_file(FIRST).write_text(report_json.to_json(then))
    (logs / "foreign" / "perfwatch").mkdir(parents=True)
    (logs / "foreign" / "perfwatch" / "report.json").write_text('{"schema_version": "<b>", "x": 1}')
    return root / "all"


@pytest.fixture(scope="module")
def board(logdir: Path) -> Iterator[Board]:
    with tensorboard(logdir) as started:
        yield started


def told(board: Board, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(run for run in board.get("/runs").document["runs"] if run["name"] == name)
    return found


def test_the_package_announces_the_plugin_to_tensorboard() -> None:
    named = re.search(
        r'^\[project\.entry-points\.tensorboard_plugins\]\nperfwatch = "(.+):(.+)"$',
        (ROOT / "pyproject.toml").read_text(),
        flags=re.MULTILINE,
    )
    assert named is not None
    assert getattr(importlib.import_module(named[1]), named[2]) is PerfWatchPlugin


def test_tensorboard_lists_the_tab_as_active_with_its_script(board: Board) -> None:
    listed = board.ask("data/plugins_listing").document["perfwatch"]

    assert listed["enabled"] is True
    assert listed["tab_name"] == "PerfWatch"
    assert listed["loading_mechanism"]["module_path"].endswith("/data/plugin/perfwatch/index.js")


def test_without_a_run_the_tab_is_not_active(tmp_path: Path) -> None:
    with tensorboard(tmp_path) as started:
        assert started.ask("data/plugins_listing").document["perfwatch"]["enabled"] is False
        assert started.get("/runs").document == {"runs": [], "note": None}


def test_script_and_style_are_served_as_they_lie_in_the_package(board: Board) -> None:
    static = Path(sys.modules[PerfWatchPlugin.__module__].__file__ or "").parent / "static"
    for name, kind in (("index.js", "text/javascript"), ("style.css", "text/css")):
        answer = board.get(f"/{name}")
        assert answer.text == (static / name).read_text()
        assert answer.headers["Content-Type"].startswith(kind)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "http" not in answer.text  # nothing is loaded from elsewhere


def test_a_run_is_told_with_its_figures(board: Board) -> None:
    run = told(board, "logs/version_0/perfwatch")

    stored = report()
    speed = stored.throughput
    assert run["title"] == "logs/version_0" and run["problem"] is None
    assert run["figures"]["tokens/s"][1] == speed.tokens_per_s
    assert run["figures"]["workers"] == ["4", 4]
    assert run["figures"]["batch size"] == ["32", 32]
    assert speed.step_time_s is not None and run["figures"]["step p50"][1] == speed.step_time_s.p50
    assert run["figures"]["findings"][1] == len(stored.findings)
    assert run["windows"] == [{"name": "", "label": "the run up to now", "stamp": run["stamp"]}]


def test_earlier_windows_can_be_chosen_and_have_their_own_page(board: Board) -> None:
    windows = told(board, "logs/version_1/perfwatch")["windows"]

    assert [window["label"] for window in windows] == [
        "the run up to now, trace of step 20",
        "as it was after steps 4 to 6",
    ]
    pages = [board.get("/page", run="logs/version_1/perfwatch", window=window["name"]).text for window in windows]
    assert ["as it was then" in page for page in pages] == [False, True]


def test_a_page_may_do_nothing_but_run_its_own_scripts(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    answer = board.get("/page", run="logs/version_0/perfwatch")

    policy = answer.headers["Content-Security-Policy"]
    assert answer.headers.get_all("Content-Security-Policy") == [policy]
    scripts = re.findall(r"<script>(.*?)</script>", answer.text, flags=re.DOTALL)
    hashes = {f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts}
    (allowed,) = re.findall(r"script-src ([^;]+);", policy)
    assert len(scripts) >= 2 and set(allowed.split()) == hashes
    assert "default-src 'none'" in policy and "http" not in policy
    assert "dataloader-starvation" in answer.text
    assert not caplog.records  # TensorBoard looks through every policy, too


def test_a_sentence_may_run_nothing(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    answer = board.get("/page", run="not there")

    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert not caplog.records


def test_a_foreign_report_is_one_sentence(board: Board) -> None:
    run = told(board, FOREIGN)
    page = board.get("/page", run=FOREIGN)

    assert run["problem"].startswith("report.json is no PerfWatch report: ")
    assert page.status == 200
    assert page.text.count("<p>report.json is no PerfWatch report: ") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b"{" * 100_000,
        b'{"schema_version": 99}',
        b'{"schema_version": 1, "findings": 7}',
        b'{"schema_version": 1, "phases": {"data_wait": {"share": "<script>", "s_per_step": 0}}}',
        b'{"schema_version": 1, "throughput": {"tokens_per_s": 1e400}}',
        b'{"schema_version": 1, "devices": [{}]}',
        b'{"schema_version": 1, "windows": [{"first_step": 1, "num_steps": 1, "planned_steps": 1, "trace": "../x"}]}',
    ],
    ids=lambda content: repr(content[:40]),
)
def test_whatever_lies_there_is_answered(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "perfwatch").mkdir()
    (tmp_path / "perfwatch" / "report.json").write_bytes(content)
    plugin = PerfWatchPlugin(Context(tmp_path))
    (run,) = plugin._finder.runs().values()

    shown = plugin._told(run)
    try:
        page = plugin._page(run, "")
    except ValueError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        assert "</html>" in page
    assert "<script>" not in json.dumps(shown)


class Context:
    """What TensorBoard gives a plugin, as far as this one asks."""

    flags = None

    def __init__(self, logdir: Path) -> None:
        self.logdir = str(logdir)


def test_a_huge_report_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path / "perfwatch", report())
    monkeypatch.setattr(brief_module, "MOST_REPORT_BYTES", 100)
    plugin = PerfWatchPlugin(Context(tmp_path))
    (run,) = plugin._finder.runs().values()

    assert "is larger than" in plugin._told(run)["problem"]


@pytest.mark.parametrize(
    "name",
    ["", "..", "../secret.json", "/etc", "logs/version_0/perfwatch/..", "logs/version_0", "logs\\version_0", "a\0b"],
)
def test_only_runs_that_were_found_can_be_asked_for(board: Board, name: str) -> None:
    answer = board.get("/page", run=name)

    assert "There is no such run below the log directory." in answer.text
    assert "secret" not in answer.text.replace(name, "")


@pytest.mark.parametrize("window", ["../../../../secret.json", "report.json", "evidence.json", "/etc/passwd", "%2e%2e"])
def test_only_windows_that_were_told_can_be_asked_for(board: Board, window: str) -> None:
    answer = board.get("/page", run="logs/version_1/perfwatch", window=window)

    assert "The report of this window is not there." in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "data/plugin/perfwatch/../../../../../etc/passwd",
        "data/plugin/perfwatch/%2e%2e%2fplugin.py",
        "data/plugin/perfwatch/static/index.js",
        "data/plugin/perfwatch/page/../../plugin.py",
    ],
)
def test_there_are_no_routes_but_the_four(board: Board, path: str) -> None:
    answer = board.ask(path)

    assert answer.status == 404 or ("root:" not in answer.text and "import" not in answer.text)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    store(tmp_path / name / "perfwatch", hostile_report())
    with tensorboard(tmp_path) as started:
        (run,) = started.get("/runs").document["runs"]
        page = started.get("/page", run=run["name"])

    assert run["name"] == f"{name}/perfwatch"
    assert "<script>alert" not in page.text and "<img src=x" not in page.text
    assert "&lt;script&gt;alert" in page.text


def test_a_report_that_is_written_anew_is_shown_anew(tmp_path: Path) -> None:
    directory = store(tmp_path / "perfwatch", report())
    with tensorboard(tmp_path) as started:
        before, page = started.get("/runs").document["runs"][0], started.get("/page", run="perfwatch").text
        assert started.get("/runs").document["runs"][0] == before
        directory.write_report(replace(report(), notes=("written while TensorBoard runs",)))
        after, later = started.get("/runs").document["runs"][0], started.get("/page", run="perfwatch").text

    assert before["stamp"] != after["stamp"]
    assert "written while TensorBoard runs" not in page
    assert "written while TensorBoard runs" in later


def test_several_log_directories_and_a_path_prefix_are_served(logdir: Path) -> None:
    logs = logdir / "logs"
    with tensorboard(
        None, f"--logdir_spec=a:{logs / 'version_0'},b:{logs / 'version_1'}", "--path_prefix=/x/y"
    ) as started:
        names = [run["name"] for run in started.get("/runs").document["runs"]]
        assert started.url.endswith("/x/y")
        assert names == ["a/perfwatch", "b/perfwatch"]
        assert "dataloader-starvation" in started.get("/page", run="b/perfwatch").text


def test_the_list_says_that_it_is_not_all(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_perfwatch.tensorboard_plugin.runs.MOST_RUNS", 1)
    with tensorboard(logdir) as started:
        document = started.get("/runs").document

    assert len(document["runs"]) == 1
    assert document["note"].startswith("There is more below the log directory than is searched")
