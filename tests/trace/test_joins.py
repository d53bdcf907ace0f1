"""What a trace joins: device work to operators, operators to modules, allocations to devices."""

import numpy as np
import pytest

from lightning_perfwatch.trace import Trace, top_launchers
from lightning_perfwatch.trace.modules import Modules
from lightning_perfwatch.trace.nesting import enclosing
from tests.trace.factories import annotation, call, copy, frame, kernel, memory, op, step, trace

BACKWARD = 200  # the thread of the backward pass


def launching_ops(recorded: Trace) -> list[str | None]:
    rows = recorded.launching_ops(recorded.device_work)
    return [recorded.names[recorded.ops.name[row]] if row >= 0 else None for row in rows]


def paths(modules: Modules) -> list[str]:
    return [modules.paths[path] for path in modules.path]


# --- silence


def test_plain_trace_has_no_modules_and_no_allocations() -> None:
    recorded = trace(step(1, 0, 9), op(0, 5), frame("train.py(3): step", 0, 9))
    assert len(recorded.modules) == 0
    assert recorded.modules_of(recorded.ops).tolist() == [-1]
    assert len(recorded.allocations) == 0


def test_work_without_a_known_launch_has_no_operator() -> None:
    assert launching_ops(trace(op(0, 9), kernel(1, 2))) == [None]
    assert launching_ops(trace(op(0, 9), call(1, 2, correlation=4), kernel(1, 2, correlation=5))) == [None]


def test_call_outside_of_operators_has_no_operator() -> None:
    recorded = trace(op(0, 9), call(10, 2, correlation=4), kernel(11, 2, correlation=4))
    assert launching_ops(recorded) == [None]
    assert top_launchers(recorded) == []


# --- kernels to operators


def test_work_belongs_to_the_innermost_operator_around_its_launch() -> None:
    recorded = trace(
        op(0, 50, "aten::linear"), op(5, 20, "aten::addmm"), annotation("label", 6, 10),
        call(7, 2, correlation=4), call(30, 2, correlation=5),
        kernel(100, 5, correlation=4), copy(110, 5, correlation=5),
    )  # fmt: skip
    assert launching_ops(recorded) == ["aten::addmm", "aten::linear"]


def test_operators_of_other_threads_do_not_launch() -> None:
    recorded = trace(op(0, 50, tid=BACKWARD), call(7, 2, correlation=4), kernel(9, 5, correlation=4))
    assert launching_ops(recorded) == [None]


def test_all_kernels_of_a_graph_belong_to_the_operator_that_launched_it() -> None:
    kernels = [kernel(20 + at, 1, correlation=4) for at in range(3)]
    recorded = trace(op(0, 9, "CompiledFunction"), call(1, 2, "cudaGraphLaunch", 4), *kernels)
    assert launching_ops(recorded) == ["CompiledFunction"] * 3


@pytest.mark.parametrize("seed", range(20))
def test_enclosing_agrees_with_a_plain_search(seed: int) -> None:
    generator = np.random.default_rng(seed)
    spans = [
        op(int(start), int(dur), tid=int(tid))
        for start, dur, tid in zip(
            generator.integers(0, 50, 40), generator.integers(1, 30, 40), generator.integers(0, 3, 40), strict=True
        )
    ]
    recorded = trace(*spans, op(0, 1, tid=9))
    outer = recorded.ops
    times = generator.integers(-5, 90, 60).astype(np.float64)
    tid = generator.integers(0, 5, 60).astype(np.int32)
    rows = enclosing(outer, tid, times)
    assert enclosing(outer, tid, times, recorded.op_parents).tolist() == rows.tolist()
    for row, time, thread in zip(rows, times, tid, strict=True):
        around = [
            (outer.start_us[at], -outer.dur_us[at])
            for at in range(len(outer))
            if outer.tid[at] == thread and outer.start_us[at] <= time < outer.end_us[at]
        ]
        assert (outer.start_us[row], -outer.dur_us[row]) == max(around) if around else row == -1


def test_launchers_are_ranked_by_the_time_of_their_device_work() -> None:
    recorded = trace(
        step(1, 0, 100), op(0, 10, "aten::mm"), op(20, 10, "aten::add"),
        call(1, 2, correlation=1), call(4, 2, correlation=2), call(21, 2, correlation=3), call(120, 2, correlation=4),
        kernel(40, 5, correlation=1), copy(45, 5, correlation=2), kernel(60, 30, correlation=3),
        kernel(130, 50, correlation=4),
    )  # fmt: skip
    add, mm = top_launchers(recorded)
    assert (add.name, add.calls_per_step, add.clock) == ("aten::add", 1, "device")
    assert (mm.name, mm.calls_per_step, mm.clock) == ("aten::mm", 2, "device")
    assert [add.self_s, mm.self_s] == pytest.approx([30e-6, 10e-6])
    assert add.share == pytest.approx(0.3)
    assert top_launchers(recorded, n=1) == [add]


# --- modules


def test_modules_nest_by_time_whatever_functions_lie_between() -> None:
    recorded = trace(
        frame("nn.Module: Net_0", 0, 50), frame("net.py(3): forward", 1, 48), frame("nn.Module: Linear_0", 2, 10),
        frame("nn.Module: Linear_1", 20, 10), frame("nn.Module: Net_0", 60, 20), frame("nn.Module: Linear_0", 61, 5),
        op(3, 2), op(15, 2), op(25, 2), op(90, 2), op(25, 2, tid=BACKWARD),
    )  # fmt: skip
    modules = recorded.modules
    assert paths(modules) == ["Net_0", "Net_0/Linear_0", "Net_0/Linear_1", "Net_0", "Net_0/Linear_0"]
    assert modules.parent.tolist() == [-1, 0, 0, -1, 3]
    rows = recorded.modules_of(recorded.ops)
    found = [modules.paths[modules.path[row]] if row >= 0 else None for row in rows]
    assert found == ["Net_0/Linear_0", "Net_0", "Net_0/Linear_1", None, None]


def test_same_module_under_two_parents_is_told_apart() -> None:
    recorded = trace(
        frame("nn.Module: A_0", 0, 9), frame("nn.Module: Shared_0", 1, 2),
        frame("nn.Module: B_0", 10, 9), frame("nn.Module: Shared_0", 11, 2),
    )  # fmt: skip
    assert paths(recorded.modules) == ["A_0", "A_0/Shared_0", "B_0", "B_0/Shared_0"]


def test_device_time_is_given_to_modules() -> None:
    recorded = trace(
        frame("nn.Module: Net_0", 0, 50), frame("nn.Module: Linear_0", 2, 10), op(3, 5), op(20, 5),
        call(4, 1, correlation=1), call(21, 1, correlation=2),
        kernel(40, 30, correlation=1), kernel(70, 5, correlation=2),
    )  # fmt: skip
    totals = top_launchers(recorded, by="module")
    assert [(total.name, round(total.self_s * 1e6)) for total in totals] == [("Net_0/Linear_0", 30), ("Net_0", 5)]


def test_hierarchy_of_a_scripted_model_is_kept() -> None:
    recorded = trace(op(0, 5), op(5, 5, args={"Module Hierarchy": "TOP(Net)::forward.fc(Linear)::forward"}))
    assert recorded.ops.hierarchy.tolist() == [-1, 0]
    assert recorded.inputs == ('"TOP(Net)::forward.fc(Linear)::forward"',)


# --- allocations


def test_allocations_hold_sizes_and_totals_in_order_of_time() -> None:
    recorded = trace(
        step(1, 0, 100),
        op(0, 5),
        memory(20, -512, **{"Total Allocated": 1024, "Total Reserved": 4096}),
        memory(10, 1536, **{"Total Allocated": 1536, "Total Reserved": 4096}),
        memory(30, 64, **{"Device Type": 0, "Device Id": -1}),
    )
    found = recorded.allocations
    assert found.start_us.tolist() == [10, 20, 30]
    assert found.num_bytes.tolist() == [1536, -512, 64]
    assert found.allocated_bytes.tolist() == [1536, 1024, -1]
    assert found.reserved_bytes.tolist() == [4096, 4096, -1]
    assert found.device_type.tolist() == [1, 1, 0]
    assert found.device.tolist() == [0, 0, -1]


def test_allocations_can_be_joined_to_operators() -> None:
    recorded = trace(op(0, 9, "aten::empty"), memory(5, 512), memory(20, 512))
    rows = enclosing(recorded.ops, recorded.allocations.tid, recorded.allocations.start_us)
    assert rows.tolist() == [0, -1]


def test_allocations_change_neither_window_nor_times() -> None:
    recorded = trace(op(10, 5), op(20, 5), memory(0, 512), memory(90, -512))
    assert (recorded.ops.start_us.tolist(), recorded.end_us) == ([0, 10], 15)
    assert recorded.allocations.start_us.tolist() == [-10, 80]


@pytest.mark.parametrize("args", [None, [], {}, {"Bytes": "x", "Device Id": 10**30}, {"Bytes": None}])
def test_odd_allocation_costs_nothing_else(args: object) -> None:
    odd = {"ph": "i", "name": "[memory]", "ts": 5, "args": args}
    recorded = trace(step(1, 0, 9), op(0, 5), odd, memory(6, 512))
    assert len(recorded.ops) == 1
    assert 512 in recorded.allocations.num_bytes
