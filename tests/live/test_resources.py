from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.live import resources
from lightning_perfwatch.live.processors import ProcessorWatch
from lightning_perfwatch.live.resources import ResourceWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps these counters")


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.cost_s = 0.0
        self._used_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    def thread_time(self) -> float:
        self._used_s += self.cost_s
        return self._used_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(resources, "time", found)
    return found


def trainer(device: str = "cpu", world_size: int = 1) -> Any:
    model = nn.Linear(2, 2)
    strategy = SimpleNamespace(root_device=torch.device(device), model=model)
    return SimpleNamespace(strategy=strategy, world_size=world_size, num_devices=world_size, lightning_module=model)


def interval(num_steps: int = 10, duration_s: float = 1.0, *, clean: bool = True) -> Interval:
    return Interval(last_step=0, num_steps=num_steps, duration_s=duration_s, samples=None, tokens=None, clean=clean)


def pass_interval(watch: ResourceWatch, clock: Clock, wall_s: float = 1.0, **changes: Any) -> None:
    clock.now_s += wall_s
    watch.edge(interval(**changes))


def num_steps(watch: ResourceWatch) -> int:
    memory = watch.resources().host_memory
    assert memory is not None
    return memory.num_steps


def test_steps_that_stand_for_the_run_count(clock: Clock) -> None:
    watch = ResourceWatch(trainer())
    pass_interval(watch, clock, clean=False)
    pass_interval(watch, clock)
    pass_interval(watch, clock, num_steps=7)
    found = watch.resources()
    assert found.processors is not None and found.host_memory is not None
    assert found.processors.num_steps == found.host_memory.num_steps == 17
    assert found.accelerators is not None
    assert found.memory is None and "memory" not in found.missing
    assert found.parallelism is None and "parallelism" not in found.missing


def test_steps_beside_a_validation_do_not(clock: Clock) -> None:
    watch = ResourceWatch(trainer())
    pass_interval(watch, clock, wall_s=1.2, duration_s=1.0)
    assert num_steps(watch) == 0
    pass_interval(watch, clock, wall_s=1.05, duration_s=1.0)
    assert num_steps(watch) == 10


def test_short_intervals_are_read_together_and_all_have_to_count(clock: Clock) -> None:
    watch = ResourceWatch(trainer())
    pass_interval(watch, clock)
    for _ in range(3):
        pass_interval(watch, clock, wall_s=0.1, duration_s=0.1)
    assert num_steps(watch) == 40
    pass_interval(watch, clock, wall_s=0.1, duration_s=0.1, clean=False)
    pass_interval(watch, clock, wall_s=0.2, duration_s=0.2)
    assert num_steps(watch) == 40


def test_a_dear_reading_is_done_more_rarely(clock: Clock) -> None:
    clock.cost_s = 0.004
    watch = ResourceWatch(trainer())
    pass_interval(watch, clock)
    pass_interval(watch, clock)
    assert num_steps(watch) == 10
    pass_interval(watch, clock)
    assert num_steps(watch) == 30


def test_after_a_hundred_readings_they_become_rarer_still(clock: Clock) -> None:
    clock.cost_s = 0.001
    watch = ResourceWatch(trainer())
    for _ in range(101):
        pass_interval(watch, clock)
    assert num_steps(watch) == 1000
    pass_interval(watch, clock)
    assert num_steps(watch) == 1020
    assert watch.resources().pace is not None


def test_what_can_not_be_read_has_its_reason_and_leaves_the_rest(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the driver says no.\nAsk again")

    monkeypatch.setattr(resources, "watch_clocks", refuse)
    monkeypatch.setattr(resources, "find_accelerators", refuse)
    watch = ResourceWatch(trainer())
    monkeypatch.setattr(ProcessorWatch, "edge", refuse)
    pass_interval(watch, clock)
    found = watch.resources()
    assert found.missing == {
        name: f"the {name} can't be read: the driver says no. Ask again"
        for name in ("clocks", "accelerators", "processors")
    }
    assert num_steps(watch) == 10


def test_without_a_step_nothing_is_known_of_the_processors() -> None:
    found = ResourceWatch(trainer()).resources()
    assert found.processors is None
    assert "no steps that stand for it" in found.why_missing("processors")


def test_a_device_that_does_not_tell_its_memory_is_named() -> None:
    found = ResourceWatch(trainer("meta")).resources()
    assert found.memory is None
    assert found.missing["memory"].startswith("the memory can't be read")
    assert found.accelerators is None and "accelerators" not in found.missing
