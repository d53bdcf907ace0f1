from pathlib import Path

import pytest

from lightning_perfwatch.trace import device_steps, host_steps, read_trace
from tests.trace.factories import call, fetch, kernel, op, step, trace

TRACES = Path(__file__).parents[3] / "shared" / "traces"
FILES = sorted(TRACES.glob("*.gz"))


def test_without_steps_there_are_no_rows() -> None:
    recorded = trace(op(0, 50))
    assert host_steps(recorded) == ()
    assert device_steps(recorded) == ()


def test_rows_are_the_steps_in_seconds() -> None:
    launched = (call(60, 5, correlation=1), kernel(62, 18, correlation=1))
    recorded = trace(step(7, 0, 100), fetch(0, 10), op(20, 30), *launched, step(8, 100, 50), op(110, 10))
    first, second = host_steps(recorded)
    assert (first.number, first.start_s, first.dur_s) == (7, 0.0, 100e-6)
    assert (first.data_wait_s, first.operators_s, first.calls_s, first.python_s) == (10e-6, 30e-6, 5e-6, 55e-6)
    assert (second.number, second.start_s, second.python_s) == (8, 100e-6, 40e-6)
    on_device, _ = device_steps(recorded)
    assert (on_device.device, on_device.number, on_device.busy_s, on_device.compute_s) == (0, 7, 18e-6, 18e-6)
    assert on_device.idle_s == pytest.approx(82e-6)


def test_what_was_not_recorded_is_none() -> None:
    (row,) = host_steps(trace(step(1, 0, 100), kernel(10, 20)))
    assert (row.data_wait_s, row.operators_s, row.calls_s) == (None, None, None)
    (on_device,) = device_steps(trace(step(1, 0, 100), kernel(10, 20)))
    assert on_device.launch_idle_s is None


@pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_parts_of_a_real_trace_add_up(path: Path) -> None:
    recorded = read_trace(path)
    for row in host_steps(recorded):
        parts = (row.data_wait_s, row.operators_s, row.calls_s, row.python_s)
        assert sum(part or 0.0 for part in parts) == pytest.approx(row.dur_s, abs=1e-7)
    for on_device in device_steps(recorded):
        whole = (on_device.compute_s, on_device.exposed_communication_s, on_device.exposed_copy_s, on_device.idle_s)
        assert sum(whole) == pytest.approx(on_device.dur_s, abs=1e-7)
