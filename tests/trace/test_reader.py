import gc
import gzip
import json
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from lightning_perfwatch.trace import Trace, TraceError, breakdown, read_trace, top_ops
from lightning_perfwatch.trace import source as source_module
from tests.trace.factories import Json, call, document, event, kernel, op, step, trace, trace_of

TRACES = Path(__file__).parents[3] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not on this machine")

EVENTS = (step(1, 0, 100), op(5, 50), call(10, 2, correlation=3), kernel(20, 30, correlation=3))


def same(a: Trace, b: Trace) -> bool:
    return breakdown(a) == breakdown(b) and top_ops(a) == top_ops(b)


# --- healthy files


def test_whole_file_leaves_nothing_out() -> None:
    assert trace(*EVENTS).left_out == ()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
def test_layout_of_the_json_does_not_matter(indent: int | None, separators: tuple[str, str]) -> None:
    text = json.dumps(document(*EVENTS), indent=indent, separators=separators)
    assert same(trace_of(text), trace(*EVENTS))


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "plain_name.json"
    path.write_bytes(gzip.compress(json.dumps(document(*EVENTS)).encode()))
    assert same(read_trace(path), trace(*EVENTS))


def test_gzip_of_several_members_is_one_file() -> None:
    text = json.dumps(document(*EVENTS)).encode()
    packed = b"".join(gzip.compress(text[at : at + 100]) for at in range(0, len(text), 100))
    assert same(trace_of(packed), trace(*EVENTS))


def test_byte_order_mark_is_no_fault() -> None:
    assert trace_of(b"\xef\xbb\xbf" + json.dumps(document(*EVENTS)).encode()).num_events == len(EVENTS)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_utf_16_with_its_mark_is_read(encoding: str, packed: bool) -> None:
    """A redirection in PowerShell writes it."""
    events = [*EVENTS, op(90, 5, "ünï 😀")]
    data = ("\ufeff" + json.dumps(document(*events), ensure_ascii=False)).encode(encoding)
    recorded = trace_of(gzip.compress(data) if packed else data)
    assert same(recorded, trace(*events))
    assert "ünï 😀" in recorded.names
    assert recorded.left_out == ()


def test_list_without_categories_is_the_oldest_export() -> None:
    events: list[Json] = [
        event("aten::mm", None, 0, 50, pid="CPU functions", tid=1),
        event(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            None,
            60,
            20,
            pid="CPU functions",
            tid=1,
        ),
        event("sgemm", None, 10, 30, pid="CUDA functions", tid=2),
    ]
    recorded = trace_of(json.dumps(events))
    result = breakdown(recorded)
    assert (len(recorded.ops), len(recorded.kernels)) == (1, 1)
    assert result.data_wait_share == pytest.approx(0.25)
    assert [device.index for device in result.devices] == [2]


def test_oldest_spellings_of_categories_and_threads() -> None:
    recorded = trace(
        event("ProfilerStep#5", "Operator", 0, 100, tid="100"),
        event("aten::mm", "Operator", 5, 50, tid="100"),
        event("aten::add", "Operator", 60, 5, tid=100),
        event("cudaLaunchKernel", "Runtime", 10, 2, args={"correlation": 3}),
        event(
            "sgemm",
            "Kernel",
            20,
            30,
            pid=0,
            tid="stream 7",
            args={"device": 0, "stream": 7, "correlation": 3},
        ),
        event("Memset (Device)", "Memset", 60, 1, pid=0, tid="stream 7", args={"device": 0}),
        event("Memcpy HtoD (Pageable -> Device)", "Memcpy", 70, 9, pid=0, tid="stream 7", args={"device": 0}),
    )
    assert recorded.steps.numbers.tolist() == [5]
    assert (len(recorded.ops), len(recorded.kernels), len(recorded.fills)) == (2, 1, 1)
    assert recorded.copies.pageable.tolist() == [True]
    assert recorded.launched_us(recorded.kernels).tolist() == [10]
    assert len(set(recorded.ops.tid.tolist())) == 1, 'thread "100" is thread 100'


@pytest.mark.parametrize("prefix", ["cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime"])
def test_runtimes_of_all_devices(prefix: str) -> None:
    assert len(trace(step(1, 0, 9), op(0, 5), call(1, 2, cat=prefix)).runtime) == 1


def test_metadata_before_and_after_the_events() -> None:
    text = json.dumps({"distributedInfo": {"rank": 3}, "traceEvents": list(EVENTS), "trace_id": "7", "pairs": [{}, {}]})
    recorded = trace_of(text)
    assert recorded.rank == 3
    assert recorded.metadata == {"distributedInfo": {"rank": 3}, "trace_id": "7", "pairs": [{}, {}]}


def test_single_process_has_no_rank() -> None:
    assert trace(*EVENTS).rank is None


# --- time


def test_times_count_from_the_first_event_and_keep_nanoseconds() -> None:
    base = 1_419_247_332_972.313
    recorded = trace(
        step(1, base, 100.0),
        op(base + 1.001, 2.002),
        baseTimeNanoseconds=1_751_410_836_000_000_000,
        displayTimeUnit="ms",
    )
    assert recorded.ops.start_us[0] == pytest.approx(1.001, abs=0.0005)
    assert recorded.origin_us == base
    assert recorded.base_time_ns == 1_751_410_836_000_000_000


def test_nanoseconds_since_1970_are_told_by_their_size() -> None:
    base = 1_751_410_836_000_000_123
    recorded = trace(step(1, base, 100_000), op(base + 1, 2_000), displayTimeUnit="ns")
    assert recorded.ops.start_us.tolist() == [0.001]
    assert breakdown(recorded).window_s == pytest.approx(100e-6)


def test_display_unit_alone_does_not_change_the_times() -> None:
    assert breakdown(trace(*EVENTS, displayTimeUnit="ns")) == breakdown(trace(*EVENTS))


def test_order_of_events_does_not_matter() -> None:
    assert same(trace(*reversed(EVENTS)), trace(*EVENTS))


# --- names


@pytest.mark.parametrize(
    "name", ['a"b\\c\n\x01', "}, {", '}, {"ph": "X"', "}]", '"traceEvents": [', "ünï 😀", "\ud83d\ude00"]
)
def test_names_may_hold_anything(name: str) -> None:
    for indent in (None, 2):
        recorded = trace_of(json.dumps(document(op(0, 1, name), step(1, 0, 9), op(2, 3)), indent=indent))
        assert recorded.left_out == ()
        expected = name.encode("utf-16", "surrogatepass").decode("utf-16")
        assert expected in recorded.names
        assert len(recorded.ops) == 2


# --- files in blocks


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1000])
def test_size_of_the_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(source_module, "BLOCK_BYTES", block_bytes)
    nested = op(50, 9, "nested", args={"inputs": [{"a": 1}, {"b": [{"c": 2}, {}]}]})
    events = [*EVENTS, nested, op(60, 2, "}, {")]
    recorded = trace_of(json.dumps(document(*events, distributedInfo={"rank": 1})))
    assert (recorded.num_events, recorded.rank, recorded.left_out) == (len(events), 1, ())


def test_memory_is_bounded_by_the_columns_not_by_the_file(tmp_path: Path) -> None:
    padding = "x" * 400
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write('{"traceEvents": [\n')
        for number in range(60_000):
            file.write(json.dumps(op(number * 10, 5, args={"Call stack": padding})) + ",\n")
        file.write(json.dumps(step(1, 0, 600_000)) + "]}")
    tracemalloc.start()
    recorded = read_trace(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert recorded.num_events == 60_001
    assert peak < 0.75 * path.stat().st_size


# --- damaged files


def test_file_cut_off_in_the_middle_gives_its_whole_events() -> None:
    text = json.dumps(document(*EVENTS, *[op(60 + i, 1) for i in range(9)]))
    recorded = trace_of(text[: text.index('"ts": 66') + 3])
    assert len(recorded.ops) == 7
    assert len(recorded.left_out) == 1
    assert "cut off" in recorded.left_out[0]


@needs_traces
@pytest.mark.parametrize("part", [0.3, 0.7])
def test_real_file_cut_off_keeps_whole_steps(part: float) -> None:
    path = TRACES / "cpu_only_gloo_rank34.pt.trace.json.gz"
    whole, data = read_trace(path), path.read_bytes()
    for cut in (
        data[: int(len(data) * part)],
        gzip.decompress(data)[: int(len(gzip.decompress(data)) * part)],
    ):
        recorded = trace_of(cut)
        assert 0 < recorded.num_events < whole.num_events
        assert any("cut off" in sentence for sentence in recorded.left_out)


def test_damaged_gzip_gives_what_came_before() -> None:
    rows = [op(i * 10, 5 + random.Random(i).random(), f"aten::{i * 7919 % 1000}") for i in range(2_000)]
    packed = bytearray(gzip.compress(json.dumps(document(step(1, 0, 20_000), *rows)).encode()))
    packed[len(packed) // 2 : len(packed) // 2 + 400] = bytes(400)
    recorded = trace_of(bytes(packed))
    assert 900 < recorded.num_events < 1500
    assert "damaged" in recorded.left_out[0]


@pytest.mark.parametrize("rest", [b"garbage", bytes(512)])
def test_what_follows_the_gzip_data_is_no_fault(rest: bytes) -> None:
    recorded = trace_of(gzip.compress(json.dumps(document(*EVENTS)).encode()) + rest)
    assert same(recorded, trace(*EVENTS))
    assert recorded.left_out == ()


@pytest.mark.parametrize("rest", ["}", "garbage", json.dumps(document(*EVENTS))])
@pytest.mark.parametrize("packed", [False, True])
def test_what_follows_the_trace_is_left_out_and_said(rest: str, packed: bool) -> None:
    """Two traces in one file are what concatenated members give, too."""
    parts = [json.dumps(document(*EVENTS, trace_id="7")).encode(), rest.encode()]
    recorded = trace_of(b"".join(map(gzip.compress, parts)) if packed else b"".join(parts))
    assert same(recorded, trace(*EVENTS))
    assert recorded.metadata == {"schemaVersion": 1, "trace_id": "7", "traceName": "trace.json"}
    assert recorded.left_out == ("Something follows the end of the trace in the file and was left out.",)


def test_what_follows_a_list_of_events_is_left_out_and_said() -> None:
    recorded = trace_of(json.dumps(list(EVENTS)) * 2)
    assert same(recorded, trace(*EVENTS))
    assert recorded.left_out == ("Something follows the end of the trace in the file and was left out.",)


def test_invalid_metadata_does_not_cost_the_events() -> None:
    """`prof.add_metadata("k", 'a"b\\c')` writes it unescaped."""
    broken = '{"note": "a"b\\c", "distributedInfo": {"rank": 5, "world_size": 8}, "traceEvents": '
    recorded = trace_of(broken + json.dumps(list(EVENTS)) + "}")
    assert same(recorded, trace(*EVENTS))
    assert recorded.rank == 5
    assert recorded.left_out == ("The metadata is not valid JSON; only the parts that could be told apart were read.",)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "nan"])
def test_bare_nan_is_null(value: str) -> None:
    bad = f'{{"ph": "X", "cat": "cpu_op", "name": "n", "ts": 1, "dur": 2, "args": {{"x": {value}}}}}'
    text = f'{{"k": {value}, "traceEvents": [{bad}, {json.dumps(op(3, 4))}]}}'
    recorded = trace_of(text)
    assert len(recorded.ops) == 2
    assert recorded.metadata["k"] is None
    assert recorded.left_out == ()


@pytest.mark.parametrize("raw", [rb"C:\temp\q", b"a\x01b\tc", b"\xff\xfe", rb"\ud800 alone", rb"\udcff.py"])
def test_names_that_are_not_valid_json_are_mended(raw: bytes) -> None:
    bad = b'{"ph": "X", "cat": "cpu_op", "name": "' + raw + b'", "ts": 1, "dur": 2}'
    recorded = trace_of(b'{"traceEvents": [' + bad + b", " + json.dumps(op(3, 4)).encode() + b"]}")
    assert len(recorded.ops) == 2
    assert recorded.left_out == ()


def test_event_that_cannot_be_mended_is_left_out_alone() -> None:
    good = [json.dumps(op(i * 10, 5)) for i in range(6)]
    bad = '{"ph": "X", "name": "un"escaped", "ts": 1, "dur": 2}'
    recorded = trace_of('{"traceEvents": [' + ",\n".join([*good[:3], bad, *good[3:]]) + '], "trace_id": "x"}')
    assert len(recorded.ops) == 6
    assert recorded.left_out == ("1 events are not valid JSON and were left out.",)


def test_values_that_are_no_events_are_left_out_alone() -> None:
    recorded = trace_of(json.dumps({"traceEvents": [None, *EVENTS[:2], 3, [], *EVENTS[2:]]}))
    assert same(recorded, trace(*EVENTS))
    assert recorded.left_out == ("3 events are not valid JSON and were left out.",)


def test_event_whose_arguments_cannot_be_mended_keeps_its_name_and_time() -> None:
    """torch 2.14 does not escape file names in "CallFrom"."""
    bad = '{"ph": "X", "cat": "cpu_op", "name": "bad", "ts": 1, "dur": 2, "args": {"CallFrom": "{"device": "cpu"}:2"}}'
    good = [json.dumps(op(at * 10, 5)) for at in range(4)]
    recorded = trace_of('{"traceEvents": [' + ", ".join([*good[:2], bad, *good[2:]]) + "]}")
    assert recorded.ops.dur_us.tolist() == [5, 2, 5, 5, 5]
    assert recorded.left_out == ("The arguments of 1 events are not valid JSON and were left out.",)


def test_numbers_as_text_and_arguments_as_a_list_are_read() -> None:
    odd = {
        "ph": "X",
        "cat": "cpu_op",
        "name": 5,
        "ts": "1.5",
        "dur": "2",
        "args": ["x"],
        "pid": [1],
        "tid": None,
    }
    recorded = trace(step(1, 0, 9), odd, op(3, 1))
    assert recorded.ops.dur_us.tolist() == [2, 1]


def test_events_without_a_time_are_said_to_be_left_out() -> None:
    recorded = trace(*EVENTS, {"ph": "X", "cat": "cpu_op", "name": "open"}, op(1, 1) | {"dur": None})
    assert recorded.left_out == ("2 events have no usable start or duration and were left out.",)


@pytest.mark.parametrize("bad", [op(1, -5), op(1, 1.8e16), kernel(9e17, 5), op(10**400, 1), op(1, 10**400)])
def test_absurd_times_are_left_out(bad: Json) -> None:
    recorded = trace(*EVENTS, bad)
    assert breakdown(recorded) == breakdown(trace(*EVENTS))
    assert len(recorded.left_out) == 1
    assert recorded.left_out[0].startswith("1 events")


def test_duplicated_and_missing_correlations_join_without_inventing() -> None:
    recorded = trace(
        step(1, 0, 100), op(0, 9), call(1, 2, correlation=5), call(6, 2, correlation=5),
        kernel(10, 5, correlation=5), kernel(20, 5, correlation=6), kernel(30, 5),
    )  # fmt: skip
    assert recorded.launches(recorded.kernels).tolist() == [0, -1, -1]


# --- what is no trace


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"   \n", "is not JSON"),
        (b"\x7fELF\x02\x01" + bytes(500), "is not JSON"),
        (gzip.compress(b"", mtime=0), "is not JSON"),
        (gzip.compress(b"x" * 1000, mtime=0)[:20], "is not JSON"),
        (b"\x1f\x8b", "gives no event (the gzip data is cut off)"),
        (b"\x1f\x8b\x07" + bytes(99), "gives no event (the gzip data is damaged)"),
        (b"{}", "has no traceEvents"),
        (b'{"a": 1}', "has no traceEvents"),
        (b'{"traceEvents": null}', "has no traceEvents"),
        (b'{"traceEvents": ', "has no traceEvents"),
        (b'{"traceEvents": []}', "holds no timed event"),
        (b"[]", "holds no timed event"),
        (b"[1, 2, 3]", "holds no timed event"),
        (b'[{"a": {}}, {"ph": "i", "ts": 3}]', "holds no timed event"),
        (b"[" * 100_000, "holds no timed event"),
        (b'{"a":' * 100_000, "has no traceEvents"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path} {reason}")
    assert "\n" not in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"traceEvents":[[', b'{"traceEvents":[{"a":['])
def test_deep_nesting_leaves_stack_to_what_is_collected_meanwhile(tmp_path: Path, opening: bytes) -> None:
    """A callback of the collector that finds no stack left fails where nobody can catch it; tests then fail."""
    path = tmp_path / "deep.json"
    path.write_bytes(opening + opening[-1:] * 100_000 if opening[-1:] == b"[" else opening * 100_000)
    collected: list[str] = []

    def calls(depth: int) -> int:
        return calls(depth - 1) if depth else 0

    def count(phase: str, _: dict[str, int]) -> None:
        calls(50)
        collected.append(phase)

    thresholds = gc.get_threshold()
    gc.callbacks.append(count)
    gc.set_threshold(1)
    try:
        with pytest.raises(TraceError):
            read_trace(path)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(count)
    assert collected


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(TraceError, match="is a folder"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match="could not be read"):
        read_trace(tmp_path / ("x" * 5000))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "locked.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(TraceError, match="permissions"):
        read_trace(path)


def test_a_second_list_of_events_is_said_to_be_left_out() -> None:
    text = json.dumps(document(*EVENTS))
    recorded = trace_of(text[:-1] + ', "traceEvents": [{"ph": "X"}], "after": 1}')
    assert recorded.num_events == len(EVENTS)
    assert any("follows the end" in sentence for sentence in recorded.left_out)


def test_many_empty_steps_are_counted_rather_than_listed() -> None:
    recorded = trace(op(0.5, 0.2), step(0, 0, 1), *(step(number, number, 1) for number in range(1, 100)))
    (sentence,) = recorded.left_out
    assert sentence == "Steps #1, #2, #3, #4, #5 and 94 more hold hardly any operator and were left out."
