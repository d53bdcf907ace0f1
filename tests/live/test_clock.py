from __future__ import annotations

import random
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lightning_perfwatch.live.clock import MOST_PENDING_STEPS, Device, DeviceMarks
from lightning_perfwatch.measurements import PHASES
from tests.live.factories import Stream

DATA_WAIT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, CALLBACKS, OTHER = range(len(PHASES))


def step(stream: Stream, marks: DeviceMarks, row: int, **work_ms: float) -> None:
    """A training step whose phases launch ``work_ms`` each, in the order given."""
    for phase, ms in work_ms.items():
        marks.mark(PHASES.index(phase))
        stream.launch(ms)
    marks.close_step(row, OTHER)


def milliseconds(read: list[tuple[int, Any]]) -> dict[int, dict[str, float]]:
    return {
        row: {name: round(float(s) * 1e3, 6) for name, s in zip(PHASES, seconds, strict=True) if s}
        for row, seconds in read
    }


class FakeModule:
    """What ``torch.get_device_module`` gives for an accelerator."""

    Event = staticmethod(lambda enable_timing: ("event", enable_timing))

    def __init__(self, wait_s: float = 0.0) -> None:
        self.waits: list[tuple[Any, ...]] = []
        self._wait_s = wait_s

    def synchronize(self, *device: Any) -> None:
        self.waits.append(device)
        time.sleep(self._wait_s)

    def get_device_name(self, device: Any) -> str:
        return f"Accelerator {device.index}"


def test_a_cpu_is_never_waited_for_and_has_no_events() -> None:
    device = Device(torch.device("cpu"))

    assert device.synchronize() == 0.0
    assert (device.name, device.type, device.is_asynchronous) == ("cpu", "cpu", False)
    assert device.num_synchronizations == 0
    assert device.event_maker() is None


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_only_the_runs_own_device_is_waited_for_and_each_wait_is_counted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = FakeModule(wait_s=0.02)
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    device = Device(torch.device(kind, 3))

    assert (device.name, device.is_asynchronous, module.waits) == ("Accelerator 3", True, [])
    waited_s = [device.synchronize() for _ in range(2)]

    assert module.waits == [(torch.device(kind, 3),)] * 2
    assert device.num_synchronizations == 2
    assert all(0.02 <= wait_s < 1.0 for wait_s in waited_s)
    make_event = device.event_maker()
    assert make_event is not None
    assert make_event() == ("event", True)


def test_mps_which_takes_no_device_and_tells_no_name_works_too(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[Any, ...]] = []
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(synchronize=lambda *a: waits.append(a)))
    device = Device(torch.device("mps"))

    device.synchronize()

    assert waits == [()]
    assert device.name == "mps"
    assert device.event_maker() is None


def test_nothing_is_read_before_the_device_has_done_it() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    step(stream, marks, 0, forward=5.0)
    step(stream, marks, 1, forward=5.0)

    assert marks.read() == []
    stream.host_ms = 7.0
    assert [row for row, _ in marks.read()] == [0]
    assert marks.read() == []
    stream.host_ms = 10.0
    assert [row for row, _ in marks.read()] == [1]


def test_the_spans_of_a_step_are_its_phases_and_add_up_to_it() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    step(stream, marks, 0, data_wait=0.0, forward=3.0, backward=6.0, optimizer=1.0)
    stream.launch(0.5)  # between the steps
    step(stream, marks, 1, data_wait=0.0, forward=2.0, optimizer=0.25, backward=4.0, callbacks=0.0)
    stream.host_ms = 100.0

    read = milliseconds(marks.read())

    assert read[0] == {"forward": 3.0, "backward": 6.0, "optimizer": 1.0}
    assert read[1] == {"other": 0.5, "forward": 2.0, "optimizer": 0.25, "backward": 4.0}
    assert sum(sum(phases.values()) for phases in read.values()) == stream.done_ms


def test_a_phase_that_comes_twice_in_a_step_is_added_up() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    for phase in (FORWARD, BACKWARD, FORWARD, BACKWARD):
        marks.mark(phase)
        stream.launch(1.5)
    marks.close_step(0, OTHER)
    stream.host_ms = 100.0

    assert milliseconds(marks.read()) == {0: {"forward": 3.0, "backward": 3.0}}


@pytest.mark.parametrize(("fetch_ms", "wait_ms"), [(4.0, 0.0), (10.0, 0.0), (25.0, 15.0)])
def test_waiting_for_data_counts_only_while_the_device_has_nothing_to_do(fetch_ms: float, wait_ms: float) -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    stream.launch(10.0)
    marks.mark(DATA_WAIT)
    stream.host_ms += fetch_ms
    marks.mark(FORWARD)
    stream.launch(10.0)
    marks.close_step(0, OTHER)
    stream.host_ms = 1000.0

    assert milliseconds(marks.read())[0].get("data_wait", 0.0) == wait_ms


def test_events_are_made_once_and_used_again() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    made = []
    for row in range(200):
        step(stream, marks, row, data_wait=0.0, forward=1.0, backward=1.0)
        stream.host_ms = stream.done_ms - 3.0  # the host is one and a half steps ahead
        marks.read()
        made.append(stream.events_made)

    assert made[-1] == made[10] <= 16


def test_a_dropped_step_leaves_no_trace_in_the_ones_around_it() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    step(stream, marks, 0, forward=3.0)
    for phase in (FORWARD, BACKWARD, CALLBACKS):
        marks.mark(phase)
        stream.launch(50.0)
    marks.close_step(None, CALLBACKS)
    stream.launch(0.5)
    step(stream, marks, 2, forward=4.0)
    stream.host_ms = 1000.0

    assert milliseconds(marks.read()) == {0: {"forward": 3.0}, 2: {"callbacks": 0.5, "forward": 4.0}}


def test_steps_dropped_again_and_again_do_not_use_up_events() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    for row in range(100):
        step(stream, marks, row, forward=1.0, backward=1.0)
        for phase in (DATA_WAIT, FORWARD, BACKWARD):
            marks.mark(phase)
        marks.close_step(None, OTHER)
        stream.host_ms = stream.done_ms
        assert [found for found, _ in marks.read()] == [row]

    assert stream.events_made <= 16


def test_a_device_far_behind_costs_the_oldest_steps_and_nothing_else() -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    num_steps = MOST_PENDING_STEPS + 36
    for row in range(num_steps):
        step(stream, marks, row, forward=1.0 + row, backward=2.0)
        assert marks.read() == []
    stream.host_ms = stream.done_ms

    read = milliseconds(marks.read())

    assert read == {row: {"forward": 1.0 + row, "backward": 2.0} for row in range(36, num_steps)}


@pytest.mark.parametrize("seed", range(5))
def test_recycled_events_never_mix_up_steps(seed: int) -> None:
    """Against sums kept by hand: random work, lag, drops and backlogs."""
    chance = random.Random(seed)
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    expected: dict[int, np.ndarray[Any, Any]] = {}
    seen: dict[int, np.ndarray[Any, Any]] = {}
    marks.mark(OTHER)
    for row in range(400):
        begun_ms, phase, sums = stream.done_ms, OTHER, np.zeros(len(PHASES))
        for _ in range(chance.randint(0, 8)):
            following = chance.choice((DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER))
            sums[phase] += stream.done_ms - begun_ms
            marks.mark(following)
            begun_ms, phase = stream.done_ms, following
            stream.launch(chance.randint(0, 5))
        sums[phase] += stream.done_ms - begun_ms
        if chance.random() < 0.1:
            marks.close_step(None, OTHER)
        else:
            marks.close_step(row, OTHER)
            expected[row] = sums
        if chance.random() < 0.5:
            stream.host_ms = max(stream.host_ms, stream.done_ms - chance.choice((0, 20, 200, 2000)))
        seen.update(dict(marks.read()))
        stream.host_ms = min(stream.host_ms, stream.done_ms)
    stream.host_ms = stream.done_ms
    seen.update(dict(marks.read()))

    assert len(seen) > 200
    for row, seconds in seen.items():
        np.testing.assert_allclose(seconds * 1e3, expected[row], err_msg=f"step {row}")
