from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lightning_perfwatch.trace import StepBreakdown, Trace, breakdown, read_trace, step_breakdowns
from lightning_perfwatch.trace.columns import DeviceSpans
from lightning_perfwatch.trace.device_times import communication_kernels
from lightning_perfwatch.trace.window import window_of
from tests.trace.factories import Json, call, copy, device_step, fetch, fill, kernel, op, step, trace
from tests.trace.random_traces import random_events

TRACES = Path(__file__).parents[3] / "shared" / "traces"
FILES = sorted(TRACES.glob("*.gz"))
Floats = npt.NDArray[np.float64]

IDLE_PARTS = ("data_idle_us", "sync_idle_us", "stall_idle_us", "launch_idle_us", "other_idle_us")


def launched(start: float, dur: float, at: float, correlation: int, name: str = "sgemm") -> list[Json]:
    """A kernel and its launch, 2 us long."""
    return [call(at, 2, correlation=correlation), kernel(start, dur, name, correlation)]


def only_device(recorded: Trace) -> StepBreakdown:
    (device,) = step_breakdowns(recorded)
    return device


def parts(device: StepBreakdown) -> dict[str, Floats]:
    columns = {part.name: getattr(device, part.name) for part in fields(device)}
    return {key: column for key, column in columns.items() if key.endswith("idle_us") and column is not None}


def assert_adds_up(device: StepBreakdown, recorded: Trace) -> None:
    """Every part is within its step, and the parts are the step, to what floats of this size can tell."""
    tolerance = 1e-9 * max(abs(window_of(recorded).end_us), abs(window_of(recorded).start_us), 1.0)
    whole = device.compute_us + device.exposed_communication_us + device.exposed_copy_us + device.idle_us
    np.testing.assert_allclose(whole, device.dur_us, rtol=0, atol=tolerance)
    np.testing.assert_allclose(device.busy_us + device.idle_us, device.dur_us, rtol=0, atol=tolerance)
    known = [getattr(device, name) for name in IDLE_PARTS]
    assert len({column is None for column in known}) == 1
    if known[0] is not None:
        np.testing.assert_allclose(sum(known), device.idle_us, rtol=0, atol=tolerance)
    for column in (*parts(device).values(), device.compute_us, device.exposed_copy_us, device.busy_us):
        assert np.all(column >= -tolerance)
        assert np.all(column <= device.dur_us + tolerance)
    assert np.all(device.exposed_communication_us <= device.communication_us + tolerance)
    assert np.all(device.start_us[1:] >= device.end_us[:-1]), "steps of a device do not overlap"


# --- silence


def test_trace_without_device_work_has_no_device_steps() -> None:
    assert step_breakdowns(trace(step(1, 0, 100), op(0, 50))) == ()


def test_trace_without_steps_has_no_device_steps() -> None:
    assert step_breakdowns(trace(op(0, 50), kernel(0, 50))) == ()


def test_idle_time_has_no_cause_without_host_calls() -> None:
    device = only_device(trace(step(1, 0, 100), kernel(0, 50)))
    assert device.idle_us.tolist() == [50]
    assert device.data_idle_us is None
    assert device.other_idle_us is None


def test_columns_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        only_device(trace(step(1, 0, 100), kernel(0, 50))).busy_us[0] = 3


# --- which time is a step's


def test_device_that_keeps_up_has_the_hosts_steps() -> None:
    device = only_device(
        trace(
            step(1, 0, 100), step(2, 100, 90), op(0, 9), op(100, 9), *launched(5, 50, 3, 1), *launched(120, 9, 115, 2)
        )
    )
    assert device.numbers.tolist() == [1, 2]
    assert device.dur_us.tolist() == [100, 90]
    assert device.busy_us.tolist() == [50, 9]


def test_host_that_runs_ahead_does_not_set_the_devices_steps() -> None:
    """Three host steps of 10 us, each with 40 us of work for the device."""
    work = [event for i in range(3) for event in launched(10 + i * 40, 40, i * 10 + 3, i + 1)]
    recorded = trace(*[step(i, i * 10, 10) for i in range(3)], *[op(i * 10, 2) for i in range(3)], *work)
    device = only_device(recorded)
    assert recorded.steps.dur_us.tolist() == [10, 10, 10]
    assert device.dur_us.tolist() == [50, 40, 40]
    assert device.busy_us.tolist() == [40, 40, 40]
    assert device.end_us[-1] == window_of(recorded).end_us


def test_work_from_before_the_first_step_is_not_in_it() -> None:
    """Without a launch record it is from before the recording; the step begins when it is done."""
    device = only_device(trace(step(1, 0, 50), op(0, 9), kernel(-5, 25, correlation=99), *launched(20, 60, 3, 1)))
    assert (device.start_us - device.end_us).tolist() == [-60]
    assert device.busy_us.tolist() == [60]


def test_time_between_steps_belongs_to_none() -> None:
    """A validation between two steps, with work of its own."""
    recorded = trace(
        step(1, 0, 50), op(0, 9), *launched(5, 20, 3, 1), *launched(70, 60, 60, 2), step(2, 100, 50), op(100, 9),
        *launched(130, 30, 110, 3),
    )  # fmt: skip
    device = only_device(recorded)
    assert device.start_us.tolist() == [0, 130]
    assert device.end_us.tolist() == [50, 160]
    assert device.busy_us.tolist() == [20, 30]


def test_stall_at_a_steps_end_is_that_steps() -> None:
    recorded = trace(
        step(1, 0, 5_000), op(0, 9), *launched(5, 100, 3, 1), step(2, 5_000, 105), op(5_000, 9),
        *launched(5_005, 100, 5_003, 2),
    )  # fmt: skip
    device = only_device(recorded)
    assert device.stall_idle_us is not None
    assert device.stall_idle_us.tolist() == [4_895, 0]


def test_annotations_of_the_device_count_where_no_launch_was_recorded() -> None:
    recorded = trace(
        step(1, 0, 10), step(2, 10, 10), kernel(20, 30, correlation=1), kernel(55, 30, correlation=2),
        device_step(1, 20, 30), device_step(2, 55, 30),
    )  # fmt: skip
    assert only_device(recorded).end_us.tolist() == [50, 85]


def test_annotations_of_another_device_do_not_count() -> None:
    recorded = trace(step(1, 0, 10), kernel(2, 3, device=1), device_step(1, 20, 30))
    assert only_device(recorded).end_us.tolist() == [10]


def test_devices_have_their_own_steps() -> None:
    recorded = trace(
        step(1, 0, 10), op(0, 5), call(1, 1, correlation=1), call(2, 1, correlation=2),
        kernel(5, 30, correlation=1), kernel(5, 60, correlation=2, device=1),
    )  # fmt: skip
    assert [(device.device, device.dur_us.tolist()) for device in step_breakdowns(recorded)] == [(0, [35]), (1, [65])]


# --- parts


def test_copies_and_communication_count_where_nothing_is_computed() -> None:
    device = only_device(
        trace(
            step(1, 0, 100), kernel(0, 40), kernel(20, 40, "ncclDevKernel_AllReduce", stream=20),
            copy(50, 20, stream=9), fill(70, 5, stream=9),
        )
    )  # fmt: skip
    assert device.compute_us.tolist() == [40]
    assert device.communication_us.tolist() == [40]
    assert device.exposed_communication_us.tolist() == [20]
    assert device.copy_us.tolist() == [20]
    assert device.exposed_copy_us.tolist() == [15]
    assert device.idle_us.tolist() == [25]


def test_wait_for_data_is_the_step_in_which_it_happens() -> None:
    recorded = trace(
        step(1, 0, 100), op(0, 9), *launched(10, 90, 3, 1),
        step(2, 100, 100), fetch(100, 60), op(160, 9), *launched(170, 30, 165, 2),
    )  # fmt: skip
    device = only_device(recorded)
    assert device.data_idle_us is not None
    assert device.data_idle_us.tolist() == [0, 60]


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_random_traces_add_up(seed: int) -> None:
    recorded = trace(*random_events(seed))
    for device in step_breakdowns(recorded):
        assert len(device) == len(recorded.steps)
        assert_adds_up(device, recorded)


@pytest.mark.parametrize("seed", range(40))
def test_random_traces_agree_with_a_raster(seed: int) -> None:
    recorded = trace(*random_events(seed))
    shift = round(recorded.origin_us)
    for device in step_breakdowns(recorded):
        kernels = recorded.kernels.take(recorded.kernels.device == device.device)
        exchange = communication_kernels(recorded)[recorded.kernels.device == device.device]
        work = recorded.device_work.take(recorded.device_work.device == device.device)
        busy, compute, exchanges = cells(work), cells(kernels.take(~exchange)), cells(kernels.take(exchange))
        for row, (start, end) in enumerate(zip(device.start_us, device.end_us, strict=True)):
            inside = set(range(round(start), round(end)))
            assert round(device.busy_us[row]) == len(busy & inside), shift
            assert round(device.compute_us[row]) == len(compute & inside)
            assert round(device.communication_us[row]) == len(exchanges & inside)
            assert round(device.exposed_communication_us[row]) == len((exchanges - compute) & inside)


def cells(spans: DeviceSpans) -> set[int]:
    return {
        cell
        for start, end in zip(spans.start_us, spans.end_us, strict=True)
        for cell in range(round(start), round(end))
    }


# --- real traces


@pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_steps_of_real_traces_add_up_and_agree_with_the_window(path: Path) -> None:
    recorded = read_trace(path)
    window_us = window_of(recorded).dur_us
    whole = {device.index: device for device in breakdown(recorded).devices}
    for device in step_breakdowns(recorded):
        assert_adds_up(device, recorded)
        # The steps leave out the carry-in before the first and a few us between two of them.
        covered = device.dur_us.sum() / window_us
        assert 0.97 < covered <= 1 + 1e-9
        share = device.busy_us.sum() / window_us
        assert share == pytest.approx(whole[device.device].busy_share, abs=1 - covered + 1e-9)
        assert device.data_idle_us is not None
        known = whole[device.device].data_idle_share
        assert device.data_idle_us.sum() / window_us == pytest.approx(known, abs=1 - covered + 1e-9)


@pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")
def test_steps_of_a_device_bound_run_are_the_devices() -> None:
    """2.4 ms of host against 22.9 ms of device per step."""
    recorded = read_trace(TRACES / "gpu_bound_cuda_graphs_rtx3060.pt.trace.json.gz")
    device = only_device(recorded)
    assert np.mean(recorded.steps.dur_us) / 1e3 == pytest.approx(2.418, rel=0.01)
    assert np.median(device.dur_us) / 1e3 == pytest.approx(22.9, rel=0.01)
    assert np.all(device.busy_us / device.dur_us > 0.98)


@pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")
def test_straggler_stalls_a_second_in_each_step_and_its_peer_communicates() -> None:
    straggler = only_device(read_trace(TRACES / "sparse_a2a_rank2_v100.pt.trace.json.gz"))
    peer = only_device(read_trace(TRACES / "sparse_a2a_rank0_v100.pt.trace.json.gz"))
    assert straggler.stall_idle_us is not None
    assert np.all(np.abs(straggler.stall_idle_us / 1e3 - 999) < 2)
    assert np.all(peer.exposed_communication_us / 1e3 > 1000)
