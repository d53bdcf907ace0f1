from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.live.startup import Startup


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"s": 1e6}
    monkeypatch.setattr("lightning_perfwatch.live.startup.perf_counter", lambda: now["s"])
    return now


def test_the_sanity_check_is_no_part_of_the_setup(now: dict[str, float]) -> None:
    start = Startup()
    for action, passes_s in ((start.begin, 2.0), (start.check_begins, 8.0), (start.check_ends, 1.0)):
        action()
        now["s"] += passes_s

    assert start.end() == {"setup": 3.0, "sanity_check": 8.0}
    assert start.end() == {}


@pytest.mark.parametrize("hooks", [(), ("check_ends",), ("check_begins", "check_ends")])
def test_where_no_setup_was_seen_nothing_is_told(hooks: tuple[str, ...], now: dict[str, Any]) -> None:
    start = Startup()
    for hook in hooks:
        getattr(start, hook)()
    assert start.end() == {}


def test_each_setup_begins_anew(now: dict[str, float]) -> None:
    start = Startup()
    for _ in range(2):
        start.begin()
        start.check_begins()
        now["s"] += 4.0
        start.check_ends()

    assert start.end() == {"setup": 0.0, "sanity_check": 4.0}
