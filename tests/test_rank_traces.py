from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lightning_perfwatch import cli
from lightning_perfwatch.bare_trace import worker_name
from lightning_perfwatch.early_readers import EarlyReaders
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Where
from lightning_perfwatch.processes import num_usable_cpus
from lightning_perfwatch.rank_traces import RankTraces, trace_files
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import RunDirectory
from tests.reporters.factories import finding
from tests.trace.factories import Json, call, document, fetch, kernel, op, step

REAL_TRACES = Path(__file__).parents[2] / "shared" / "traces"


@dataclass(frozen=True)
class DeadlyOnRankOne(Rule):
    """Ends the process that asks it about rank 1."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.trace is not None and evidence.trace.rank == 1:
            sys.stderr.write("out of luck\n")
            os._exit(3)
        yield finding(share=0.2)


def rank_trace(folder: Path, name: str, rank: int | None = None, busy_us: float = 250.0) -> Path:
    """A trace of one step of 1000 µs, with a fetch of 100 µs and, after it, two kernels of which one exchanges."""
    events: list[Json] = [
        step(3, 0, 1000),
        fetch(0, 100),
        op(100, 300),
        call(110, 10, correlation=1),
        call(120, 10, correlation=2),
        kernel(200, busy_us, correlation=1),
        kernel(700, 50, "ncclDevKernel_AllReduce", correlation=2, stream=20),
    ]
    known = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4}}
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(document(*events, **known)))
    return path


def read(*paths: Path, rules: tuple[Rule, ...] = ()) -> Report:
    return RankTraces(trace_files(paths), rules).report()


def ranks_of(report: Report) -> dict[str, int]:
    return {Path(str(rank.trace)).name: rank.rank for rank in report.ranks}


def test_every_rank_is_summed_up_and_the_first_shown_in_detail(tmp_path: Path) -> None:
    rank_trace(tmp_path, "node_a.1700000000000000000.pt.trace.json", rank=1)
    first = rank_trace(tmp_path, "node_b.1700000000000000000.pt.trace.json", rank=0, busy_us=450.0)

    report = read(tmp_path)

    assert (report.source, report.devices[0].busy_share) == (str(first), 0.5)
    assert [rank.rank for rank in report.ranks] == [0, 1]
    other = report.ranks[1]
    assert (other.host, other.tokens_per_s, other.samples_per_s) == ("node_a", None, None)
    assert (other.window_s, other.step_time_s) == pytest.approx((1e-3, 1e-3))
    assert other.busy_share == pytest.approx(0.3)
    assert other.communication_share == other.exposed_communication_share == pytest.approx(0.05)
    assert other.data_wait_share == pytest.approx(0.1)


def test_what_the_first_rank_shows_is_what_it_shows_alone(tmp_path: Path) -> None:
    first = rank_trace(tmp_path, "rank0.pt.trace.json")
    rank_trace(tmp_path, "rank1.pt.trace.json", busy_us=100.0)
    alone = read(first, rules=(DeadlyOnRankOne(),))

    both = read(tmp_path, rules=(DeadlyOnRankOne(),))

    assert both.findings == alone.findings != ()
    assert (both.devices, both.top_ops, both.window_s) == (alone.devices, alone.top_ops, alone.window_s)
    assert both.timeline == alone.timeline
    assert both.timeline is not None and both.timeline.step == 3


@dataclass(frozen=True)
class OnlyOfOtherRanks(Rule):
    """Finds more the higher the rank is, and can not judge rank 0."""

    def skip_reason(self, evidence: Evidence) -> str | None:
        return "rank 0 tells nothing" if evidence.trace is None or evidence.trace.rank == 0 else None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        assert evidence.trace is not None and evidence.trace.rank is not None
        yield finding(share=evidence.trace.rank / 10)


@dataclass(frozen=True)
class NamesCode(Rule):
    """Finds a line of the file ``code.py`` beside the trace, on rank 1 only."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        assert evidence.trace is not None
        if evidence.trace.rank == 1:
            yield finding(share=0.5, where=Where(file=str(evidence.trace.path.with_name("code.py")), line=1))


def test_the_code_that_a_finding_of_another_rank_names_is_shown(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("one\n")
    for rank in (0, 1):
        rank_trace(tmp_path, f"{rank}.pt.trace.json", rank=rank)

    (excerpt,) = read(tmp_path, rules=(NamesCode(),)).excerpts.values()
    assert excerpt.lines == ("one",)


def test_what_only_another_rank_shows_is_told_of_the_rank_where_it_is_worst(tmp_path: Path) -> None:
    for rank in (0, 1, 3, 2):
        rank_trace(tmp_path, f"{rank}.json", rank=rank)

    report = read(tmp_path, rules=(OnlyOfOtherRanks(),))

    (found,) = report.findings
    assert (found.share, found.where.rank) == (0.3, 3)
    assert OnlyOfOtherRanks.id() not in report.skipped
    alone = read(tmp_path / "0.json", rules=(OnlyOfOtherRanks(),))
    assert alone.skipped[OnlyOfOtherRanks.id()] == "rank 0 tells nothing"


def test_ranks_come_from_the_trace_else_from_a_name_else_from_the_order_of_names(tmp_path: Path) -> None:
    rank_trace(tmp_path, "a_rank7.json", rank=3)
    rank_trace(tmp_path, "b-Rank_2.json")
    rank_trace(tmp_path, "w2.json")
    rank_trace(tmp_path, "w10.json")
    rank_trace(tmp_path, "franks5.json")
    rank_trace(tmp_path / "rank4", "trace.json")

    ranks = ranks_of(read(tmp_path, tmp_path / "rank4"))

    assert ranks == {"franks5.json": 0, "w2.json": 1, "b-Rank_2.json": 2, "a_rank7.json": 3, "trace.json": 4} | {
        "w10.json": 5
    }
    assert list(ranks.values()) == [0, 1, 2, 3, 4, 5]


def test_windows_of_one_worker_are_one_rank_and_equal_names_in_other_folders_are_not(tmp_path: Path) -> None:
    for name in ("host_12.1700000000000000001.pt.trace.json", "host_12.1700000000000000002.pt.trace.json"):
        rank_trace(tmp_path / "a", name)
        rank_trace(tmp_path / "b", name)

    assert [rank.rank for rank in read(tmp_path / "a", tmp_path / "b").ranks] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        ("host_12.1700000000000000001.pt.trace.json.gz", "host_12"),
        ("rank0.pt.trace.json", "rank0"),
        ("trace_3.json", "trace_3"),
        ("node.lan_7.1700000000001.pt.trace.json", "node.lan_7"),
        (".json", ".json"),
    ],
)
def test_the_worker_is_what_its_files_have_in_common(name: str, worker: str) -> None:
    assert worker_name(Path(name)) == worker


def test_a_file_that_can_not_be_read_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    rank_trace(tmp_path, "rank1.pt.trace.json")
    (tmp_path / "rank0.pt.trace.json").write_bytes(b"\x00\x01")
    absent = tmp_path / "absent.json"

    report = read(tmp_path, absent)

    assert ranks_of(report) == {"rank1.pt.trace.json": 1}
    assert [str(path) in note for path, note in zip((tmp_path / "rank0", absent), report.notes, strict=True)] == [
        True,
        True,
    ]


def test_what_was_left_out_of_another_rank_is_said_with_its_file(tmp_path: Path) -> None:
    rank_trace(tmp_path, "rank0.pt.trace.json")
    cut = rank_trace(tmp_path, "rank1.pt.trace.json")
    cut.write_bytes(cut.read_bytes()[:-200])

    (note,) = read(tmp_path).notes

    assert note.startswith("rank1.pt.trace.json: The file is cut off")


def test_a_sentence_says_that_nothing_can_be_read(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).touch()

    with pytest.raises(ValueError, match=r"None of the 2 traces can be read\. The first: .*a\.json is empty"):
        read(tmp_path)


def test_a_reader_that_dies_costs_its_own_trace_only(tmp_path: Path) -> None:
    for rank in range(4):
        rank_trace(tmp_path, f"{rank}.json", rank=rank)

    report = read(tmp_path, rules=(DeadlyOnRankOne(),))

    assert [rank.rank for rank in report.ranks] == [0, 2, 3]
    assert report.notes == (f"{tmp_path / '1.json'} could not be read: its reader ended with status 3 (out of luck).",)


def test_a_folder_gives_the_profilers_own_names_else_any_json(tmp_path: Path) -> None:
    other = rank_trace(tmp_path, "settings.json")
    assert trace_files([tmp_path]) == [other]

    trace = rank_trace(tmp_path, "w.1.pt.trace.json")
    assert trace_files([tmp_path, trace, other]) == [trace, other]


def test_a_run_directory_among_traces_is_refused(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").write_evidence(Evidence())

    with pytest.raises(ValueError, match=r"run is a run directory: analyse it alone\."):
        trace_files([rank_trace(tmp_path, "a.json"), tmp_path / "run"])


def test_readers_start_early_for_several_traces_only_and_end_with_their_context(tmp_path: Path) -> None:
    first, second = (rank_trace(tmp_path / "ranks", f"{rank}.json", rank=rank) for rank in range(2))
    RunDirectory(tmp_path / "run").write_evidence(Evidence())
    (tmp_path / "run" / "w.pt.trace.json").touch()

    for paths in ([first], [tmp_path / "run"], [tmp_path / "absent"], []):
        with EarlyReaders(paths) as readers:
            assert readers.take() is None
    for paths in ([first, second], [tmp_path / "ranks"]):
        with EarlyReaders(paths) as readers:
            taken = readers.take()
            assert taken is not None
            left = readers.take()
            assert (left is None) == (num_usable_cpus() == 1)
            if left is not None:
                readers._readers.append(left)
        assert left is None or left.process.returncode is not None
        assert taken.process.returncode is None  # it is its taker's to end
        taken.end()


def test_a_reader_that_started_early_and_died_costs_its_own_trace_only(tmp_path: Path) -> None:
    for rank in range(4):
        rank_trace(tmp_path, f"{rank}.json", rank=rank)

    with EarlyReaders([tmp_path]) as readers:
        dead = readers._readers[-1]
        dead.process.kill()
        dead.process.wait()
        report = RankTraces(trace_files([tmp_path]), (), (), readers).report()

    assert len(report.ranks) == 3
    assert len(report.notes) == 1
    assert report.notes[0].endswith("its reader ended with status -9, perhaps for lack of memory.")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs the processes in /proc")
@pytest.mark.parametrize("arguments", [("--rule", "absent"), ("--ignore", "absent")])
def test_a_bad_argument_leaves_no_reader_behind(arguments: tuple[str, str], tmp_path: Path) -> None:
    paths = [rank_trace(tmp_path, f"{rank}.json", rank=rank) for rank in range(2)]
    before = set(Path("/proc").glob("[0-9]*"))

    assert cli.main(["analyze", *map(str, paths), *arguments]) == cli.EXIT_UNREADABLE

    mine = [process for process in set(Path("/proc").glob("[0-9]*")) - before if _parent_of(process) == os.getpid()]
    assert mine == []


def _parent_of(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_ends_the_readers(tmp_path: Path) -> None:
    pipes = [tmp_path / "a.json", tmp_path / "b.json"]
    for pipe in pipes:
        os.mkfifo(pipe)
    parent = subprocess.Popen(
        [sys.executable, "-m", "lightning_perfwatch", "analyze", *map(str, pipes)],
        stderr=subprocess.PIPE,
        # a test run that a shell started in the background ignores Ctrl-C, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it has no threads
    )
    to_reader = os.open(pipes[0], os.O_WRONLY)  # waits until a reader has opened it

    parent.send_signal(signal.SIGINT)

    assert parent.communicate(timeout=20)[1] == b""
    assert parent.returncode == 130
    with pytest.raises(BrokenPipeError):
        os.write(to_reader, b"{")
    os.close(to_reader)


@pytest.mark.skipif(not REAL_TRACES.exists(), reason="the real traces are not here")
def test_real_ranks_are_told_apart(tmp_path: Path) -> None:
    for name in ("sparse_a2a_rank2_v100.pt.trace.json.gz", "sparse_a2a_rank0_v100.pt.trace.json.gz"):
        (tmp_path / name).write_bytes((REAL_TRACES / name).read_bytes())

    first, other = read(tmp_path).ranks

    assert (first.rank, other.rank) == (0, 2)
    assert first.exposed_communication_share == pytest.approx(0.92, abs=0.01)
    assert other.exposed_communication_share == pytest.approx(0.01, abs=0.005)
