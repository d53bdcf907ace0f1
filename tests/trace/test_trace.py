import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

from lightning_perfwatch.trace import Trace, breakdown, calls_per_step, read_trace, top_ops
from lightning_perfwatch.trace.nesting import nested, parents
from lightning_perfwatch.trace.trace import once
from tests.trace.factories import annotation, call, copy, event, fetch, kernel, op, step, trace

WORKER = 200  # another thread


# --- joins that are worked out once


def test_a_question_is_worked_out_once_for_each_trace_and_argument() -> None:
    asked = []

    @once
    def question(recorded: Trace, number: int) -> int:
        asked.append((recorded, number))
        return number

    first, second = trace(op(0, 5)), trace(op(0, 5))
    assert [question(first, 1), question(first, 1), question(first, 2), question(second, 1)] == [1, 1, 2, 1]
    assert asked == [(first, 1), (first, 2), (second, 1)]


def test_work_of_a_device_comes_in_order_of_time() -> None:
    recorded = trace(kernel(9, 2), kernel(3, 2), copy(1, 1), kernel(5, 1, device=1))
    assert recorded.work_of(0).start_us.tolist() == [0, 2, 8]
    assert recorded.work_of(0) is recorded.work_of(0)
    assert len(recorded.work_of(7)) == 0


def test_all_rows_of_columns_are_the_columns() -> None:
    ops = trace(op(0, 5), op(6, 5)).ops
    assert ops.take(np.ones(2, np.bool_)) is ops
    assert len(ops.take(np.array([True, False]))) == 1


# --- steps


def test_trace_without_steps_has_none() -> None:
    recorded = trace(op(0, 5))
    assert len(recorded.steps) == 0
    assert calls_per_step(recorded, ["aten::mm"]).tolist() == []


def test_steps_are_in_order_of_time_with_their_numbers() -> None:
    recorded = trace(step(10, 100, 90), op(100, 5), step(9, 0, 90), op(0, 5))
    assert recorded.steps.numbers.tolist() == [9, 10]
    assert recorded.steps.dur_us.tolist() == [90, 90]


def test_step_seen_on_several_threads_is_one() -> None:
    recorded = trace(step(1, 0, 90), step(1, 2, 50, tid=WORKER), op(5, 5))
    assert recorded.steps.end_us.tolist() == [90]


def test_step_of_a_stopped_profiler_is_not_complete() -> None:
    """torch opens one more step before it stops; this one lasted an epoch's end but holds no operator."""
    recorded = trace(step(1, 0, 90), op(5, 5), step(2, 100, 90), op(105, 5), step(3, 200, 900))
    assert recorded.steps.numbers.tolist() == [1, 2]
    assert recorded.left_out == (
        "Step #3 holds hardly any operator (the profiler was stopped in it) and was left out.",
    )


def test_remainder_with_a_few_operators_is_not_complete() -> None:
    work = [op(start + i, 1) for start in (0, 100) for i in range(50)]
    recorded = trace(step(1, 0, 90), step(2, 100, 90), *work, step(3, 200, 5), op(201, 1))
    assert recorded.steps.numbers.tolist() == [1, 2]


def test_last_complete_step_is_kept() -> None:
    """Accumulation and logging make steps unequal; a step with half of the others' work is a step."""
    work = [op(start + i, 1) for start in (0, 100) for i in range(50)]
    recorded = trace(step(1, 0, 90), step(2, 100, 90), *work, step(3, 200, 50), *[op(200 + i, 1) for i in range(20)])
    assert recorded.steps.numbers.tolist() == [1, 2, 3]
    assert recorded.left_out == ()


def test_only_step_is_kept_where_only_the_device_was_recorded() -> None:
    assert len(trace(step(1, 0, 90), kernel(5, 5)).steps) == 1


# --- operators


def test_self_time_is_without_the_operators_inside_on_the_same_thread() -> None:
    recorded = trace(
        op(0, 100, "outer"),
        op(10, 50, "inner"),
        op(20, 10, "leaf"),
        op(70, 20, "leaf"),
        op(30, 40, "other", tid=WORKER),
    )
    own = {
        recorded.names[name]: float(time) for name, time in zip(recorded.ops.name, recorded.ops.self_us, strict=True)
    }
    assert own["outer"] == 30
    assert own["inner"] == 40
    assert own["other"] == 40


def test_annotations_take_no_self_time_from_operators() -> None:
    recorded = trace(op(0, 100), annotation("my block", 10, 50), call(20, 5))
    assert recorded.ops.self_us.tolist() == [100]


def test_back_to_back_operators_are_no_children() -> None:
    around, own = nested(np.zeros(3, np.int32), np.array([0.0, 1, 2]), np.ones(3))
    assert (around.tolist(), own.tolist()) == ([-1, -1, -1], [1, 1, 1])


def test_the_one_around_is_told_by_its_row_in_any_order() -> None:
    around, _ = nested(np.array([1, 1, 2, 1], np.int32), np.array([2.0, 1, 2, 0]), np.array([1.0, 5, 1, 10]))
    assert around.tolist() == [1, 3, -1, -1]


def test_span_that_sticks_out_of_the_one_around_it_is_cut() -> None:
    """With stacks torch writes spans that overlap without nesting; a thread's self times still add up."""
    _, own = nested(np.zeros(3, np.int32), np.array([0.0, 5, 8]), np.array([10.0, 10, 20]))
    assert own.tolist() == [5, 3, 2]


@pytest.mark.parametrize("seed", range(30))
def test_nesting_agrees_with_a_stack(seed: int) -> None:
    generator = np.random.default_rng(seed)
    number = int(generator.integers(1, 80))
    tid = generator.integers(0, 3, number).astype(np.int32)
    start = generator.integers(0, 60, number).astype(np.float64)
    dur = generator.integers(0, 30, number).astype(np.float64)
    order = np.lexsort((-dur, start, tid))
    tid, start, end = tid[order], start[order], (start + dur)[order]
    expected = []
    for row in range(number):
        open_rows = [at for at in range(row) if tid[at] == tid[row] and end[at] > start[row]]
        expected.append(max(open_rows, default=-1))
    assert parents(tid, start, end).tolist() == expected


def test_many_siblings_take_few_rounds() -> None:
    number = 200_000
    start = np.concatenate(([0.0], np.arange(number) * 2.0 + 1))
    dur = np.concatenate(([number * 3.0], np.ones(number)))
    _, own = nested(np.zeros(number + 1, np.int32), start, dur)
    assert own[0] == number * 2.0


# --- queries


def test_calls_are_counted_in_the_step_in_which_they_begin() -> None:
    item = "aten::_local_scalar_dense"
    recorded = trace(
        step(1, 0, 100), op(0, 5, item), op(99, 5, item), op(50, 5, tid=WORKER, name=item),
        step(2, 100, 100), op(110, 5), call(120, 5, "cudaStreamSynchronize"), op(250, 5, item),
    )  # fmt: skip
    assert calls_per_step(recorded, {item}).tolist() == [3, 0]
    assert calls_per_step(recorded, {item, "cudaStreamSynchronize"}).tolist() == [3, 1]
    assert calls_per_step(recorded, {"never"}).tolist() == [0, 0]


def test_loader_is_seen_as_annotation_and_as_operator() -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    recorded = trace(step(1, 0, 100), op(0, 5), fetch(10, 5), event(name, "cpu_op", 20, 5))
    assert len(recorded.dataloader) == 2
    assert len(recorded.ops) == 1
    assert calls_per_step(recorded, [name]).tolist() == [1]


def test_python_frames_are_kept_apart() -> None:
    recorded = trace(step(1, 0, 100), op(0, 5), event("train.py(3): step", "python_function", 0, 90))
    assert [recorded.names[name] for name in recorded.python_frames.name] == ["train.py(3): step"]


def test_device_of_another_number_has_the_only_model_of_the_file() -> None:
    """ROCm numbers the devices of a machine in the events and those of the process in the properties."""
    recorded = trace(kernel(0, 5, device=2), deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X"}])
    assert recorded.device_name(2) == "AMD Instinct MI300X"


@pytest.mark.parametrize("info", [None, [], {"rank": "0"}, {"rank": True}, {}])
def test_rank_of_an_odd_description_is_unknown(info: object) -> None:
    assert trace(op(0, 1), distributedInfo=info).rank is None


def test_trace_cannot_be_changed() -> None:
    recorded = trace(op(0, 5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        recorded.num_events = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        recorded.ops.start_us[0] = 7


def test_room_needs_neither_torch_nor_lightning() -> None:
    code = "import sys, lightning_perfwatch.trace; assert not {'torch', 'lightning'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- a trace that torch writes here


@pytest.fixture(scope="module")
def recorded_here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    """Three steps of a small fit on the CPU, with a loader, shapes and odd names."""
    path = tmp_path_factory.mktemp("trace") / "cpu.pt.trace.json"
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(40, 64)), batch_size=8)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        record_shapes=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for (batch,) in loader:
            with record_function('odd "name" \\ }, {'):
                loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            assert loss.item() >= 0
            profiler.step()
    return read_trace(path), path


def test_own_recording_gives_its_steps_and_operators(recorded_here: tuple[Trace, Path]) -> None:
    recorded, path = recorded_here
    assert recorded.left_out == ()
    assert recorded.num_events == len(json.loads(path.read_text())["traceEvents"])
    assert recorded.steps.numbers.tolist() == [2, 3, 4]
    assert calls_per_step(recorded, {"aten::_local_scalar_dense"}).tolist() == [1, 1, 1]
    assert len(recorded.dataloader) == 3
    # torch itself replaces the quotes.
    assert recorded.named(recorded.annotations, "odd ").sum() == 3


def test_own_recording_gives_shapes_and_types(recorded_here: tuple[Trace, Path]) -> None:
    recorded, _ = recorded_here
    ops = recorded.ops.take(recorded.named(recorded.ops, "aten::addmm"))
    assert {recorded.inputs[dims].replace(" ", "") for dims in ops.dims} == {"[[64],[8,64],[64,64],[],[]]"}
    assert all(recorded.inputs[types].startswith('["float", "float"') for types in ops.types)


def test_operators_without_recorded_shapes_have_none() -> None:
    recorded = trace(op(0, 5), op(5, 5, args={"Input Dims": [[2, 3]]}))
    assert recorded.ops.dims.tolist() == [-1, 0]
    assert recorded.ops.types.tolist() == [-1, -1]
    assert recorded.inputs == ("[[2, 3]]",)


def test_own_recording_breaks_down(recorded_here: tuple[Trace, Path]) -> None:
    recorded, _ = recorded_here
    result = breakdown(recorded)
    assert result.devices == ()
    assert result.num_steps == 3
    assert result.data_wait_share is not None
    assert 0 < result.data_wait_share < 1
    assert result.host_op_share is not None
    assert 0 < result.host_op_share <= 1
    names = {total.name for total in top_ops(recorded, n=100)}
    assert "aten::addmm" in names
    assert not any(name.startswith(("ProfilerStep", "enumerate", "Optimizer.")) for name in names)


def test_self_times_agree_with_a_plain_reading(recorded_here: tuple[Trace, Path]) -> None:
    """Against a plain reading of the file: duration minus what other operators of the thread cover of it."""
    recorded, path = recorded_here
    rows = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "cpu_op"]
    truth = 0.0
    for row in rows:
        end = row["ts"] + row["dur"]
        inside = [
            (other["ts"], other["ts"] + other["dur"])
            for other in rows
            if other is not row and other["tid"] == row["tid"] and row["ts"] <= other["ts"] < end
        ]
        reached = row["ts"]
        total = 0.0
        for begin, finish in sorted(inside):
            total += max(0.0, finish - max(begin, reached))
            reached = max(reached, finish)
        if row["name"] == "aten::linear":
            truth += row["dur"] - total
    mine = recorded.ops.self_us[recorded.named(recorded.ops, "aten::linear")].sum()
    assert mine == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("num_steps", range(1, 5))
def test_stopping_early_leaves_no_phantom_step(tmp_path: Path, num_steps: int) -> None:
    """The profiler's last step is the one that it opened and was stopped in."""
    path = tmp_path / "t.json"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=9, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(num_steps + 1):
            for _ in range(10):
                torch.ones(4).add(1)
            profiler.step()
    assert len(read_trace(path).steps) == num_steps
