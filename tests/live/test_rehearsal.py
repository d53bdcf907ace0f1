"""What entering a step's contexts takes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from lightning_perfwatch.live.rehearsal import rehearse
from tests.live.factories import HostClock


def test_the_fastest_round_over_all_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, entered = HostClock(), []
    monkeypatch.setattr("lightning_perfwatch.live.rehearsal.perf_counter_ns", clock)

    def profile(name: str) -> nullcontext[None]:
        entered.append(name)
        clock.pass_ms(1.0 if len(entered) > 10 else 100.0)
        return nullcontext()

    assert rehearse(profile, ["a", "b"]) == pytest.approx(0.002)
    assert entered[:4] == ["a", "b", "a", "b"]
