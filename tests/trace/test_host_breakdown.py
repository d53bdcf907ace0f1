from pathlib import Path

import numpy as np
import pytest

from lightning_perfwatch.trace import HostBreakdown, breakdown, host_breakdown, read_trace
from tests.trace.factories import annotation, call, event, fetch, op, step, trace
from tests.trace.random_traces import random_events

TRACES = Path(__file__).parents[3] / "shared" / "traces"
FILES = sorted(TRACES.glob("*.gz"))
WORKER = 200  # another thread


def assert_adds_up(host: HostBreakdown) -> None:
    parts = [host.data_wait_us, host.operators_us, host.calls_us, host.python_us]
    whole = sum((part for part in parts if part is not None), np.zeros(len(host)))
    np.testing.assert_allclose(whole, host.dur_us, rtol=1e-9, atol=1e-6)
    assert all(np.all(part >= -1e-6) for part in parts if part is not None)


# --- silence


def test_what_was_not_recorded_is_none() -> None:
    host = host_breakdown(trace(step(1, 0, 100), annotation("label", 0, 5)))
    assert host.data_wait_us is None
    assert host.operators_us is None
    assert host.calls_us is None
    assert host.other_threads_us is None
    assert host.python_us.tolist() == [100]


def test_annotations_and_frames_are_no_operators() -> None:
    labels = [annotation("forward", 0, 90), event("train.py(3): step", "python_function", 0, 90)]
    host = host_breakdown(trace(step(1, 0, 100), op(0, 10), *labels))
    assert host.python_us.tolist() == [90]


# --- parts


def test_python_is_what_operators_waits_and_calls_leave() -> None:
    host = host_breakdown(
        trace(
            step(1, 0, 100), fetch(0, 20), op(30, 20), op(35, 5), call(38, 2), call(60, 10, "cudaDeviceSynchronize"),
            step(2, 100, 50), op(100, 50),
        )
    )  # fmt: skip
    assert host.numbers.tolist() == [1, 2]
    assert host.data_wait_us is not None
    assert host.data_wait_us.tolist() == [20, 0]
    assert host.operators_us is not None
    assert host.operators_us.tolist() == [20, 50]
    assert host.calls_us is not None
    assert host.calls_us.tolist() == [10, 0]
    assert host.python_us.tolist() == [50, 0]
    assert_adds_up(host)


def test_operators_inside_the_loader_are_the_wait_for_data() -> None:
    """num_workers=0: the batch is collated in the main process."""
    host = host_breakdown(trace(step(1, 0, 100), fetch(0, 40), op(5, 30, "aten::stack"), op(50, 10)))
    assert host.data_wait_us is not None
    assert host.operators_us is not None
    assert (host.data_wait_us.tolist(), host.operators_us.tolist()) == ([40], [10])


def test_operators_of_other_threads_are_apart() -> None:
    host = host_breakdown(trace(step(1, 0, 100), op(0, 10), op(5, 60, tid=WORKER), call(70, 5)))
    assert host.other_threads_us is not None
    assert host.other_threads_us.tolist() == [60]
    assert host.python_us.tolist() == [85]
    assert_adds_up(host)


def test_event_across_the_edge_of_steps_is_split() -> None:
    host = host_breakdown(trace(step(1, 0, 100), step(2, 100, 100), op(1, 1), op(80, 50), op(140, 1)))
    assert host.operators_us is not None
    assert host.operators_us.tolist() == [21, 31]


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_random_traces_add_up(seed: int) -> None:
    assert_adds_up(host_breakdown(trace(*random_events(seed))))


@pytest.mark.skipif(not FILES, reason="the shared traces are not on this machine")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_parts_of_real_traces_add_up(path: Path) -> None:
    recorded = read_trace(path)
    host = host_breakdown(recorded)
    assert_adds_up(host)
    if len(host) and host.data_wait_us is not None:
        share = breakdown(recorded).data_wait_share
        assert host.data_wait_us.sum() / breakdown(recorded).window_s / 1e6 == pytest.approx(share, abs=1e-4)
