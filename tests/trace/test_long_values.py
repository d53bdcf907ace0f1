"""Events and metadata that are too long to be held: what is read of them, and what it costs."""

import json
import random
import string
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lightning_perfwatch.cli import main
from lightning_perfwatch.trace import Trace, TraceError, decode, parts, read_trace
from lightning_perfwatch.trace import source as source_module
from lightning_perfwatch.trace.brackets import Brackets
from lightning_perfwatch.trace.decode import EventStream
from tests.trace.factories import Json, document, event, op, step, trace, trace_of

LIMIT = 20_000
TRAP = 'a "quote", a \\, }, {"ph": "X"}, {"a": [{}]}], "b": ]}, '
"""In a string, what looks like the end of an event, of the list or of the string."""

ARGUMENTS = "The arguments of 1 event larger than 0.02 MB were left out."
LONG = {
    "text": TRAP * 2000,
    "letters": "x" * 90_000,
    "backslashes": "\\" * 60_001,
    "objects": [{"a": 1, "b": [{"c": TRAP}]}] * 1500,
    "numbers": [[1, 2], [3]] * 9000,
}


@pytest.fixture(autouse=True)
def little_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LONGEST_BYTES", LIMIT)
    monkeypatch.setattr(decode, "_RETRY_BYTES", LIMIT // 4)
    monkeypatch.setattr(decode, "_KEPT_BYTES", 1000)
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 999)


def some_ops(first: int, number: int) -> list[Json]:
    return [op(first + at, 0.5, f"aten::op{at % 7}", args={"dims": [{"d": at}]}) for at in range(number)]


def long_op(value: Any, **fields: Any) -> Json:
    return op(500, 2, "aten::long", args={"x": value}, **fields)


def names(recorded: Trace) -> list[str]:
    return [recorded.names[row] for row in recorded.ops.name]


BEFORE, AFTER = [step(1, 0, 1000), *some_ops(1, 300)], some_ops(600, 300)


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("before", "after"), [(BEFORE, AFTER), ([], BEFORE), (BEFORE, [])])
def test_arguments_of_a_long_event_are_left_out_and_all_else_is_read(
    value: Any, indent: int | None, before: list[Json], after: list[Json]
) -> None:
    recorded = trace_of(json.dumps(document(*before, long_op(value), *after), indent=indent))
    assert recorded.left_out == (ARGUMENTS,)
    assert names(recorded) == names(trace(*before, op(500, 2, "aten::long"), *after))
    assert recorded.metadata["traceName"] == "trace.json"


def test_a_long_event_in_a_bare_list() -> None:
    recorded = trace_of(json.dumps([*BEFORE, long_op(LONG["text"])]))
    assert recorded.left_out == (ARGUMENTS,)
    assert recorded.num_events == len(BEFORE) + 1


def test_an_event_of_which_nothing_else_can_be_told_is_left_out() -> None:
    def arguments_first(value: Any) -> Json:
        return {"args": {"x": value}} | op(500, 2)

    recorded = trace(*BEFORE, arguments_first(LONG["text"]), *AFTER)
    assert recorded.left_out == ("1 event larger than 0.02 MB was left out.",)
    assert names(recorded) == names(trace(*BEFORE, *AFTER))
    recorded = trace(arguments_first(LONG["text"]), *BEFORE, arguments_first(LONG["objects"]), op(1, 2, "x" * 40_000))
    assert recorded.left_out == ("3 events larger than 0.02 MB were left out.",)
    assert names(recorded) == names(trace(*BEFORE))


@pytest.mark.parametrize("value", [TRAP * 250, [{"a": 1, "b": [{"c": 2}]}] * 500, "x" * 18_000])
def test_an_event_that_can_be_held_is_read_with_its_arguments(value: Any) -> None:
    known = {"x": value, "correlation": 7, "device": 3, "stream": 1}
    recorded = trace(*BEFORE, event("sgemm", "kernel", 500, 2, args=known), *AFTER)
    assert recorded.left_out == ()
    assert recorded.kernels.device.tolist() == [3]
    assert recorded.num_events == len(BEFORE) + len(AFTER) + 1


def test_a_file_that_ends_in_a_long_event_is_cut_off() -> None:
    text = json.dumps(document(*BEFORE, long_op(LONG["text"])))
    recorded = trace_of(text[:-5000])
    assert "cut off" in recorded.left_out[0]
    assert recorded.left_out[1:] == (ARGUMENTS,)
    assert recorded.num_events == len(BEFORE) + 1


def test_a_long_event_without_an_end_ends_where_the_next_begins() -> None:
    text = json.dumps(document(*BEFORE, long_op("THE VALUE"), *AFTER))
    recorded = trace_of(text.replace('"THE VALUE"', '"' + "x" * 50_000))
    assert recorded.left_out == (ARGUMENTS,)
    assert recorded.num_events == len(BEFORE) + 1 + len(AFTER)


def test_an_event_without_an_end_is_not_taken_for_a_long_one() -> None:
    text = json.dumps(document(*BEFORE, op(500, 2, args={"x": "THE VALUE"}), *AFTER))
    recorded = trace_of(text.replace('"THE VALUE"}}', "[1"))
    assert not any("larger" in sentence for sentence in recorded.left_out)
    assert recorded.num_events >= len(BEFORE) + len(AFTER)


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_of_long_metadata_the_parts_that_matter_are_read(value: Any) -> None:
    info = {"rank": 3, "world_size": 4}
    for keys in (
        {"distributedInfo": info, "long": value, "traceEvents": BEFORE},
        {"long": value, "distributedInfo": info, "traceEvents": BEFORE},
        {"traceEvents": BEFORE, "distributedInfo": info, "long": value},
    ):
        recorded = trace_of(json.dumps(keys))
        assert recorded.left_out == (
            "The metadata is larger than 0.02 MB; only the parts that could be told apart were read.",
        )
        assert recorded.rank == 3
        assert recorded.num_events == len(BEFORE)


def test_a_long_file_that_is_no_trace_is_refused_for_that_reason() -> None:
    with pytest.raises(TraceError, match="has no traceEvents"):
        trace_of(json.dumps({"long": LONG["text"]}))


def test_the_command_says_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pt.trace.json"
    path.write_text(json.dumps(document(*BEFORE, long_op(LONG["text"]), *AFTER)))
    assert main(["analyze", str(path)]) == 0
    assert ARGUMENTS in " ".join(capsys.readouterr().out.split())


def test_a_file_with_a_long_event_is_read_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SMALLEST_PART_BYTES", 4096)
    monkeypatch.setattr(parts, "_HEAD_START_BYTES", 1024)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document(long_op(LONG["letters"]), *BEFORE, *some_ops(600, 2000))))
    assert len(parts.ranges(path, 2)) == 2
    assert parts.read_in_parts(path, 2) is None
    assert read_trace(path, 2).left_out == (ARGUMENTS,)


def test_a_long_event_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document(*BEFORE, long_op("x" * 6_000_000), *AFTER)))
    read_trace(path)
    tracemalloc.start()
    try:
        read_trace(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


@pytest.mark.parametrize("text", [json.dumps(document(long_op("x" * 900_000))), json.dumps({"x": "x" * 900_000})])
def test_no_byte_is_looked_at_many_times(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The buffer doubles: looking through it for every block would take a time that grows with its square."""
    monkeypatch.setattr(decode, "LONGEST_BYTES", 1_000_000)
    data = text.encode()
    copied = 0

    class Counting(EventStream):
        def _read(self, num_bytes: int = 1) -> bool:
            nonlocal copied
            done = super()._read(num_bytes)
            copied += len(self._buffer)
            return done

    for _ in Counting(data[at : at + 1000] for at in range(0, len(data), 1000)):
        pass
    assert copied < 10 * len(data)  # for every block, it would be 450 times


@pytest.mark.parametrize("seed", range(20))
def test_ends_of_values_are_those_that_json_has(seed: int) -> None:
    chance = random.Random(seed)

    def text() -> str:
        return "".join(chance.choices('\\"{}[], ' + string.ascii_letters[:3], k=chance.randrange(12)))

    def value(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.3:
            return text()
        if chance.random() < 0.5:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        return {text(): value(depth - 1) for _ in range(chance.randrange(4))}

    written, expected = "", []
    for _ in range(30):
        written += json.dumps({"a": value(4)})
        expected.append(len(written))
        written += " , "
    data = (written + "{}] , {}, [{}]").encode()
    expected.append(len(written) + 2)
    brackets, found, at = Brackets(), [], 0
    while at < len(data):
        block = data[at : at + chance.randrange(1, 9)]
        found += [at + int(end) for end in brackets.ends(block)]
        at += len(block)
    assert found == expected
    assert Brackets().ends(data).tolist() == expected
