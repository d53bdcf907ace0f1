"""A clock in the hand of a test, and a process in which nothing has been compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo.utils

from tests.live.factories import HostClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HostClock:
    """Replaces what a :class:`PhaseTimer` reads."""
    clock = HostClock()
    monkeypatch.setattr("lightning_perfwatch.live.stopwatch.perf_counter_ns", clock)
    monkeypatch.setattr("lightning_perfwatch.live.contexts.perf_counter_ns", clock)
    return clock


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """What other tests have compiled does not count here, nor what this one compiles elsewhere."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
