from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lightning_perfwatch import report as report_json
from lightning_perfwatch import run_directory
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Where
from lightning_perfwatch.measurements import Excerpt, Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import RunDirectory, pack_trace
from lightning_perfwatch.trace import breakdown
from tests.reporters.factories import finding

LOADER = b'{"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_Iter.__next__", "ts": 1}'
STEP = b'{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 9}'


def trace_text(num_steps: int = 1) -> bytes:
    events: list[dict[str, Any]] = []
    for step in range(num_steps):
        start = 1000.0 * step
        span = {"ph": "X", "pid": 1, "tid": 1, "args": {}}
        name = f"ProfilerStep#{step}"
        events.append({**span, "cat": "user_annotation", "name": name, "ts": start, "dur": 900.0})
        events.append({**span, "cat": "cpu_op", "name": "aten::mm", "ts": start + 100.0, "dur": 300.0})
    return json.dumps({"traceEvents": events}).encode()


def window(trace: str | None, first_step: int = 0, **changes: Any) -> Window:
    return Window(first_step=first_step, num_steps=3, planned_steps=3, trace=trace, **changes)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("chunk_bytes", [300, 301, 333, 8 << 20])
@pytest.mark.parametrize("gap", [0, 1, 100, 241, 255, 256, 257])
def test_loader_events_become_operators_also_across_chunks_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, gap: int
) -> None:
    monkeypatch.setattr(run_directory, "_CHUNK_BYTES", chunk_bytes)
    content = b"[" + b" " * gap + b",\r\n".join([LOADER, STEP, "µ\u2028".encode(), b"\x00\xff", LOADER] * 7) + b"]"
    plain = tmp_path / "a.pt.trace.json"
    plain.write_bytes(content)

    pack_trace(plain, tmp_path / "a.gz")

    expected = content.replace(LOADER, LOADER.replace(b"user_annotation", b"cpu_op"))
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == expected
    assert files(tmp_path) == ["a.gz"]


def test_an_empty_trace_is_packed_too(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    pack_trace(tmp_path / "a", tmp_path / "a.gz")

    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b""


def test_a_failure_while_packing_leaves_the_plain_trace_and_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"[]")
    monkeypatch.setattr(run_directory, "_with_visible_loader", full_disk)

    with pytest.raises(OSError, match="No space left"):
        pack_trace(tmp_path / "a", tmp_path / "a.gz")

    assert files(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"[]"


def test_a_trace_that_can_not_be_packed_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    directory = RunDirectory(tmp_path)
    (tmp_path / "w.pt.trace.json").write_bytes(trace_text())
    directory.write_evidence(Evidence(windows=(window("w.pt.trace.json"),)))
    monkeypatch.setattr(run_directory, "pack_trace", full_disk)

    report = directory.analyze(rules=())

    assert report.windows[0].trace == "w.pt.trace.json"
    assert report.window_s is not None


def test_evidence_without_a_trace_gives_a_report_that_is_stored(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "not" / "there yet")
    directory.write_evidence(Evidence(notes=("a note",)))

    report = directory.analyze(rules=())

    assert report == Report(notes=("a note",), directory=str(directory.path), skipped=report.skipped)
    assert directory.read_report() == report
    assert files(directory.path) == ["evidence.json", "report.json"]


def test_analysis_packs_the_traces_and_reads_them_again_the_second_time(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    (tmp_path / "w.pt.trace.json").write_bytes(trace_text(3))
    directory.write_evidence(Evidence(windows=(window("w.pt.trace.json"), window(None, 50, reason="disk full"))))

    first = directory.analyze(rules=())
    second = directory.analyze(rules=())

    assert files(tmp_path) == ["evidence.json", "report.json", "w.pt.trace.json.gz"]
    assert first == second
    assert first.windows[0].trace == "w.pt.trace.json.gz"
    assert first.top_ops[0].name == "aten::mm"


def test_the_last_complete_window_that_can_be_read_is_judged(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for name, content in (
        ("first", trace_text(1)),
        ("second", trace_text(2)),
        ("broken", b"{"),
        ("partial", trace_text(4)),
    ):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    windows = [
        window("first.gz"),
        window("second.gz", 10),
        window("broken.gz", 20),
        window("lost.gz", 30),
        window("partial.gz", 40, partial=True),
    ]

    trace, reason, file = directory.read_trace(windows)

    assert reason is None and file == "second.gz"
    assert trace is not None
    assert directory.read_trace(windows[:0]) == (None, None, None)
    expected, _, _ = directory.read_trace([windows[1]])
    assert expected is not None
    assert breakdown(trace) == breakdown(expected)


def test_a_trace_that_can_not_be_read_is_the_reason_for_what_is_skipped(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    (tmp_path / "w.gz").write_bytes(b"no gzip")
    directory.write_evidence(Evidence(windows=(window("w.gz"),)))

    trace, reason, file = directory.read_trace([window("w.gz")])

    assert trace is None and file is None
    assert reason
    assert directory.analyze(rules=()).window_s is None


def test_a_directory_without_evidence_can_not_be_analysed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RunDirectory(tmp_path).analyze()
    assert files(tmp_path) == []


@dataclass(frozen=True)
class FindsLine(Rule):
    """Finds line 2 of a file, and names it."""

    file: str = ""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield finding(where=Where(file=self.file, line=2))


def test_the_code_that_findings_name_goes_into_the_report_and_is_not_read_again(tmp_path: Path) -> None:
    code = tmp_path / "train.py"
    code.write_text("one\ntwo\n")
    os.utime(code, (1000.0, 1000.0))
    directory = RunDirectory(tmp_path / "perfwatch")
    directory.write_evidence(Evidence())

    directory.analyze(rules=[FindsLine(str(code))])
    code.unlink()

    assert directory.read_report().excerpts == {f"{code}:2": Excerpt(str(code), 1, ("one", "two"))}


def test_code_that_was_changed_after_the_fit_had_begun_is_not_shown(tmp_path: Path) -> None:
    code = tmp_path / "train.py"
    code.write_text("one\ntwo\n")
    directory = RunDirectory(tmp_path / "perfwatch")
    directory.write_evidence(Evidence(wall_s={"setup": 1000.0, "training": 1000.0}))

    assert directory.analyze(rules=[FindsLine(str(code))]).excerpts == {}


def analysed_window(directory: RunDirectory, *traces: str) -> Report:
    """The report after the last of these windows, whose traces differ by their steps."""
    directory.path.mkdir(exist_ok=True)
    for number, name in enumerate(traces, start=1):
        if not directory.path.joinpath(f"{name}.gz").exists():
            (directory.path / name).write_bytes(trace_text(number))
    windows = tuple(window(name, 10 * number) for number, name in enumerate(traces))
    directory.write_evidence(Evidence(windows=windows))
    return directory.analyze(rules=())


def test_a_report_names_the_trace_that_its_figures_are_of(tmp_path: Path) -> None:
    report = analysed_window(RunDirectory(tmp_path), "a.pt.trace.json", "b.pt.trace.json")

    assert report.trace == "b.pt.trace.json.gz"


def test_an_earlier_windows_report_is_kept_beside_its_trace(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    first = analysed_window(directory, "rank0.1.pt.trace.json")
    assert not list(tmp_path.glob("*.report.json"))  # one window: report.json is its report
    second = analysed_window(directory, "rank0.1.pt.trace.json", "rank0.2.pt.trace.json")
    again = directory.analyze(rules=())

    assert again == second == directory.read_report()
    assert [path.name for path in tmp_path.glob("*.report.json")] == ["rank0.1.report.json"]
    kept = directory.window_report_file(str(second.windows[0].trace))
    assert report_json.from_json(kept.read_bytes()) == first


def test_what_an_earlier_fit_left_is_no_window_of_this_one(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    analysed_window(directory, "rank0.1.pt.trace.json")
    analysed_window(directory, "rank0.7.pt.trace.json")

    assert not list(tmp_path.glob("*.report.json"))


def test_a_foreign_report_is_replaced_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("[]")
    analysed_window(RunDirectory(tmp_path), "a.pt.trace.json", "b.pt.trace.json")

    assert not list(tmp_path.glob("*.report.json"))


def test_the_newest_sixteen_reports_of_windows_are_kept(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    names = [f"rank0.{number:02}.pt.trace.json" for number in range(19)]
    for count in range(1, 20):
        analysed_window(directory, *names[:count])

    assert [path.name[6:8] for path in sorted(tmp_path.glob("*.report.json"))] == [f"{n:02}" for n in range(2, 18)]


def test_a_name_that_leads_out_of_the_directory_does_not(tmp_path: Path) -> None:
    assert RunDirectory(tmp_path).window_report_file("../../etc/x.pt.trace.json.gz") == tmp_path / "x.report.json"
