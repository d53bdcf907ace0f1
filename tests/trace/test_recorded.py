"""Files that torch writes on this machine, the awkward ones of the reports too, are read as they were meant."""

import gzip
import json
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from lightning_perfwatch.trace import Trace, breakdown, host_breakdown, read_trace, top_ops
from lightning_perfwatch.trace.nesting import enclosing
from tests.trace.recording import record

HOSTILE = (
    'a"b\\c\n\x01',
    "}, {",
    '}], "traceEvents": [',
    "tab\t 'quoted' \\",
    "ünï 😀",
    '{"device": "cpu"}',
    "NaN",
    "",
)


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def strict(path: Path) -> list[dict[str, object]]:
    """The events, by a reader that takes neither control characters nor NaN."""
    events: list[dict[str, object]] = json.loads(path.read_text(), strict=True, parse_constant=refuse)["traceEvents"]
    return events


@pytest.fixture(scope="module")
def detailed(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """With stacks, modules, shapes and memory."""
    path = tmp_path_factory.mktemp("detailed") / "t.json"
    record(path, with_stack=True, profile_memory=True, record_shapes=True)
    return read_trace(path)


# --- what the options add


def test_modules_of_a_recording_are_those_of_the_model(detailed: Trace) -> None:
    paths = set(detailed.modules.paths)
    assert len(detailed.modules) == 3 * 5
    (net,) = {path for path in paths if "/" not in path}
    tails = {path.removeprefix(net).translate({ord(digit): None for digit in "0123456789"}) for path in paths}
    assert tails == {"", "/Linear_", "/Sequential_", "/Sequential_/ReLU_", "/Sequential_/Linear_"}


def test_operators_of_a_recording_are_given_to_modules(detailed: Trace) -> None:
    addmm = detailed.ops.take(detailed.named(detailed.ops, "aten::addmm"))
    rows = detailed.modules_of(addmm)
    assert len(rows) == 6
    assert all("Linear_" in detailed.modules.paths[path].rsplit("/", 1)[-1] for path in detailed.modules.path[rows])
    backward = detailed.ops.take(detailed.named(detailed.ops, "AddmmBackward0"))
    assert len(backward) == 6
    assert set(detailed.modules_of(backward)) == {-1}


def test_allocations_of_a_recording_add_up(detailed: Trace) -> None:
    found = detailed.allocations
    assert len(found) > 30
    assert set(found.device_type) == {0}
    # Each total is the one before plus what was allocated or freed.
    change = found.allocated_bytes[1:] - found.allocated_bytes[:-1]
    assert (change == found.num_bytes[1:]).mean() > 0.95
    around = enclosing(detailed.ops, found.tid, found.start_us)
    assert (around >= 0).any()


def test_recording_without_options_has_neither(tmp_path: Path) -> None:
    record(tmp_path / "t.json")
    recorded = read_trace(tmp_path / "t.json")
    assert (len(recorded.modules), len(recorded.allocations), len(recorded.python_frames)) == (0, 0, 0)


# --- steps


@pytest.mark.parametrize("active", [1, 2, 5])
def test_last_complete_step_is_kept(tmp_path: Path, active: int) -> None:
    """Report 44: HolisticTraceAnalysis drops the last step of every trace; all of these are whole."""
    record(tmp_path / "t.json", active)
    recorded = read_trace(tmp_path / "t.json")
    announced = [event for event in strict(tmp_path / "t.json") if str(event["name"]).startswith("ProfilerStep#")]
    assert recorded.steps.numbers.tolist() == list(range(1, active + 1))
    assert len(announced) == active
    assert recorded.left_out == ()
    assert len(host_breakdown(recorded)) == breakdown(recorded).num_steps == active


def test_recording_without_steps_has_those_of_its_optimizer(tmp_path: Path) -> None:
    record(tmp_path / "t.json", 4, stepped=False)
    recorded = read_trace(tmp_path / "t.json")
    assert (len(recorded.steps), recorded.steps.source) == (3, "optimizer")
    host = host_breakdown(recorded)
    assert host.operators_us is not None
    assert (host.operators_us > 0).all()


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_cycles_of_one_worker_are_traces_of_their_own(tmp_path: Path) -> None:
    """Report 41: repeat=2 writes two files for one worker; neither hides the other."""
    paths: list[Path] = []

    def export(profiler: profile) -> None:
        paths.append(tmp_path / f"worker.{len(paths)}.pt.trace.json")
        profiler.export_chrome_trace(str(paths[-1]))

    phases = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=[ProfilerActivity.CPU], schedule=phases, on_trace_ready=export) as profiler:
        for _ in range(8):
            torch.ones(64, 64).mm(torch.ones(64, 64))
            profiler.step()
    assert [read_trace(path).steps.numbers.tolist() for path in paths] == [[2, 3], [6, 7]]


# --- files


def test_trace_is_exported_once_and_a_copy_is_as_good(tmp_path: Path) -> None:
    """Report 37: torch refuses the second export, so whoever wants two files copies the first."""
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    profiler = record(path)
    with pytest.raises(RuntimeError, match="already saved"):
        profiler.export_chrome_trace(str(copy))
    shutil.copyfile(path, copy)
    assert breakdown(read_trace(copy)) == breakdown(read_trace(path))


def test_gzip_written_by_torch_is_read_back(tmp_path: Path) -> None:
    """Report 40."""
    packed = tmp_path / "t.pt.trace.json.gz"
    record(packed)
    plain = tmp_path / "t.json"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    recorded = read_trace(packed)
    assert recorded.num_events == len(strict(plain))
    assert recorded.left_out == ()
    assert top_ops(recorded) == top_ops(read_trace(plain))


# --- names and metadata (report 38)


def test_hostile_names_are_valid_json_and_read_as_written(tmp_path: Path) -> None:
    def inside() -> None:
        for name in HOSTILE:
            with record_function(name):
                torch.ones(2)

    path = tmp_path / "t.json"
    record(path, inside=inside)
    written = {str(event["name"]) for event in strict(path) if event.get("cat") == "user_annotation"}
    recorded = read_trace(path)
    assert recorded.left_out == ()
    assert written == {recorded.names[name] for name in recorded.annotations.name}
    assert len(written) >= len(HOSTILE)
    assert recorded.steps.numbers.tolist() == [1, 2, 3]


def test_hostile_file_names_in_stacks_are_read(tmp_path: Path) -> None:
    scope: dict[str, object] = {"torch": torch}
    exec(compile("def inside():\n    return torch.ones(2)\n", '{"device": "cpu"}', "exec"), scope)
    inside = scope["inside"]
    assert callable(inside)
    path = tmp_path / "t.json"
    record(path, inside=inside, with_stack=True)
    recorded = read_trace(path)
    # torch 2.14 writes the name unescaped into the arguments of the functions that it calls.
    assert recorded.left_out in ((), ("The arguments of 3 events are not valid JSON and were left out.",))
    assert recorded.steps.numbers.tolist() == [1, 2, 3]
    assert any("device" in name and "inside" in name for name in recorded.names)


def test_metadata_that_torch_writes_unescaped_does_not_cost_the_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(2).add(1)
        profiler.add_metadata("note", 'a"b\\c')
        profiler.add_metadata_json("number", "NaN")
        profiler.add_metadata_json("distributedInfo", '{"rank": 3}')
    profiler.export_chrome_trace(str(path))
    with pytest.raises(json.JSONDecodeError):
        strict(path)
    recorded = read_trace(path)
    assert recorded.rank == 3
    assert len(recorded.ops) >= 2
    assert recorded.left_out == ("The metadata is not valid JSON; only the parts that could be told apart were read.",)
