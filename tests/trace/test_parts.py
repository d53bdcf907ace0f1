import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.trace import Trace, TraceError, parts, read_trace
from lightning_perfwatch.trace.collector import Collector
from lightning_perfwatch.trace.columns import Kind
from lightning_perfwatch.trace.decode import EventStream
from lightning_perfwatch.trace.parts import Part, read_in_parts
from tests.trace.factories import Json, call, document, event, kernel, op, step
from tests.trace.mutations import mutate

MEMORY = {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 100, "tid": 100, "ts": 5.25}


def some_events(number: int) -> list[Json]:
    """Every kind of event, names that occur in one part only, lanes and shapes that occur in several."""
    chance = random.Random(number)
    events: list[Json] = []
    for row in range(number):
        at = 1_700_000_000_000.125 + row * 10
        events += [
            step(row, at, 9.5),
            op(at + 1, 2.25, f"aten::op{row // 40}", tid=100 + row % 3, args={"Input Dims": [[row % 7, 2]]}),
            call(at + 2, 0.5, correlation=row),
            kernel(at + 3, 1 + chance.random(), correlation=row, device=row % 2),
            MEMORY | {"ts": at, "args": {"Bytes": row, "Total Allocated": row, "Device Id": -1, "Device Type": 0}},
        ]
    return events


def whole(found: Part | None) -> Part:
    assert found is not None
    return found


def columns(found: Any, threads: Any = ()) -> dict[str, Any]:
    """Everything in a Trace, flat; threads by their ids, since who reads first may number them."""
    flat: dict[str, Any] = {}
    threads = getattr(found, "threads", threads)
    for key, value in vars(found).items():
        if key == "tid":
            flat[key] = [threads[row] for row in value]
        elif hasattr(value, "__dataclass_fields__"):
            flat |= {f"{key}.{name}": one for name, one in columns(value, threads).items()}
        else:
            flat[key] = set(value) if key == "threads" else value
    return flat


def assert_same(one: Trace, other: Trace) -> None:
    first, second = columns(one), columns(other)
    assert first.keys() == second.keys()
    for key, value in first.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)
        else:
            assert value == second[key], key


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SMALLEST_PART_BYTES", 4096)
    monkeypatch.setattr(parts, "_HEAD_START_BYTES", 1024)


def written(path: Path, events: list[Json] | str, **keys: Any) -> Path:
    text = events if isinstance(events, str) else json.dumps(document(*events) | keys, indent=1)
    path.write_text(text)
    return path


@pytest.mark.parametrize("num_processes", [2, 3])
@pytest.mark.usefixtures("small_parts")
def test_several_processes_find_what_one_finds(tmp_path: Path, num_processes: int) -> None:
    path = written(tmp_path / "a.json", some_events(200), after={"the": "events"})
    assert len(parts.ranges(path, num_processes)) == num_processes
    found = whole(read_in_parts(path, num_processes))
    assert found.metadata["after"] == {"the": "events"}
    assert_same(read_trace(path, num_processes), read_trace(path))


@pytest.mark.usefixtures("small_parts")
def test_a_bare_list_is_cut_too(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", json.dumps(some_events(200)))
    whole(read_in_parts(path, 2))
    assert_same(read_trace(path, 2), read_trace(path))


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_ends_early_is_cut_and_said_to_end_early(tmp_path: Path) -> None:
    text = json.dumps(document(*some_events(200)))
    path = written(tmp_path / "a.json", text[: int(len(text) * 0.9)])
    assert whole(read_in_parts(path, 2)).cut_off
    recorded = read_trace(path, 2)
    assert "cut off" in recorded.left_out[0]
    assert_same(recorded, read_trace(path))


def test_a_small_file_is_read_by_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", some_events(20))
    assert read_in_parts(path, 8) is None
    assert read_trace(path, 8).num_events == 100


def test_a_missing_file_is_no_concern_of_the_parts(tmp_path: Path) -> None:
    assert read_in_parts(tmp_path / "absent", 2) is None


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda text: text.replace('"aten::op1"', '"aten::\\q"'), id="an escape that is none, at the end"),
        pytest.param(
            lambda text: text.replace('"aten::op0"', '"aten::\\q"'), id="an escape that is none, at the start"
        ),
        pytest.param(lambda text: text + "{}", id="something behind the end"),
        pytest.param(lambda text: text.replace('"ph": "X"', '"phase": "X", "ph": "X"', 1), id="a first key of its own"),
        pytest.param(lambda text: "\ufeff" + text, id="a mark"),
        pytest.param(lambda text: text.replace("}, {", "},{},{"), id="empty events"),
    ],
)
def test_a_file_that_needs_care_gives_the_same(tmp_path: Path, harm: Any) -> None:
    path = written(tmp_path / "a.json", harm(json.dumps(document(*some_events(100)))))
    assert_same(read_trace(path, 2), read_trace(path))


@pytest.mark.usefixtures("small_parts")
def test_a_list_of_other_things_behind_the_events_is_not_taken_for_events(tmp_path: Path) -> None:
    """The cut falls into it: what stands before the cut is then a whole document, which does not prove it."""
    others = [event(f"no event {row}", "cpu_op", 1.0, 1.0) for row in range(400)]
    path = written(tmp_path / "a.json", json.dumps({"traceEvents": some_events(20), "others": others}))
    assert read_in_parts(path, 2) is None
    assert read_trace(path, 2).num_events == 100


@pytest.mark.usefixtures("small_parts")
def test_a_name_that_looks_like_a_border_is_not_cut_in_two(tmp_path: Path) -> None:
    trap = '}, {"ph": "X"}, {"ph": "X", "name": "' * 200
    path = written(tmp_path / "a.json", json.dumps(document(*some_events(10), op(1, 2, trap), *some_events(10))))
    assert_same(read_trace(path, 2), read_trace(path))


@pytest.mark.usefixtures("small_parts")
def test_pairs_that_reach_over_a_border_are_paired(tmp_path: Path) -> None:
    begin = {"ph": "B", "name": "outer", "cat": "cpu_op", "pid": 100, "tid": 100, "ts": 1.0}
    path = written(tmp_path / "a.json", [begin, *some_events(100), {**begin, "ph": "E", "ts": 90.0}])
    assert read_in_parts(path, 2) is None
    recorded = read_trace(path, 2)
    assert "outer" in recorded.names
    assert_same(recorded, read_trace(path))


@pytest.mark.usefixtures("small_parts")
def test_a_child_that_dies_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.json", some_events(100))
    monkeypatch.setattr(parts, "_SERVE", "raise SystemExit(3)")
    assert read_in_parts(path, 2) is None
    assert read_trace(path, 2).num_events == 500


@pytest.mark.usefixtures("small_parts")
def test_no_child_outlives_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harmed = json.dumps(document(*some_events(100))).replace('"aten::op0"', '"aten::op0" ""')
    path = written(tmp_path / "a.json", harmed)
    started: list[int] = []
    popen = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(parts, "_SERVE", "import time; time.sleep(60)")
    assert read_in_parts(path, 2) is None  # its own part needs repair
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.usefixtures("small_parts")
def test_damaged_files_give_the_same(tmp_path: Path) -> None:
    whole_file = json.dumps(document(*some_events(60))).encode()
    path = tmp_path / "a.json"
    num_cut = 0
    for seed in range(24):
        path.write_bytes(mutate(whole_file, random.Random(seed)))
        num_cut += read_in_parts(path, 2) is not None if has_events(path) else 0
        if has_events(path):
            assert_same(read_trace(path, 2), read_trace(path))
        else:
            with pytest.raises(TraceError):
                read_trace(path, 2)
    assert num_cut  # some damage does no harm to the parts


def has_events(path: Path) -> bool:
    try:
        read_trace(path)
    except TraceError:
        return False
    return True


def test_absorbing_numbers_names_anew() -> None:
    first, second = Collector(), Collector(0.0)
    for collector, names in ((first, "abc"), (second, "cdb")):
        stream = EventStream([json.dumps(document(*(op(1, 2, name) for name in names))).encode()])
        for events in stream:
            collector.add(events)
    first.absorb(second)
    known = list(first.names)
    assert [known[row] for part in first.groups[Kind.OPERATOR].parts["name"] for row in part] == list("abccdb")
    assert (first.num_events, first.num_timed) == (6, 6)


@pytest.mark.usefixtures("small_parts")
def test_without_an_interpreter_to_start_one_process_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.json", some_events(100))
    monkeypatch.setattr(sys, "executable", None)
    assert read_in_parts(path, 2) is None
    assert read_trace(path, 2).num_events == 500
