from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Clocks, Resources
from lightning_perfwatch.rules.throttling import Throttling
from tests.rules.factories import evidence, on_gpu, resources


def slowed(num_throttled: int = 10, clock_mhz: float | None = 1000.0, **changes: Any) -> Evidence:
    """Twenty readings of a GPU's clock."""
    usual = {"num_readings": 20, "full_clock_mhz": 2000.0, "temperature_c": 91.0, **changes}
    clocks = Clocks("cuda", wall_s=100.0, num_throttled=num_throttled, clock_mhz=clock_mhz, **usual)
    return evidence(run=on_gpu(), resources=resources(clocks=clocks))


def cpu(throttled_s: float) -> Evidence:
    return evidence(resources=resources(clocks=Clocks("cpu", wall_s=100.0, throttled_s=throttled_s)))


def check(found: Evidence) -> list[Finding]:
    return list(Throttling().check(found))


def test_silent_at_full_clock() -> None:
    assert check(evidence()) == []
    assert check(slowed(0, clock_mhz=None)) == []
    assert check(slowed(1)) == []  # of twenty


def test_skipped_where_clocks_can_not_be_read_or_were_read_seldom() -> None:
    rule = Throttling()
    unread = Resources(missing={"clocks": "the clocks of the GPU need the package nvidia-ml-py"})
    assert rule.skip_reason(evidence(resources=unread)) == "the clocks of the GPU need the package nvidia-ml-py"
    assert rule.skip_reason(slowed(num_readings=4)) == "4 readings of the clock are too few, 5 are needed"
    assert rule.skip_reason(Evidence())


def test_a_gpu_that_is_too_hot() -> None:
    (finding,) = check(slowed())
    assert finding.share == pytest.approx(0.25)
    assert finding.share_is == "estimate"
    assert finding.severity is Severity.CRITICAL
    assert finding.summary == (
        "For 50 % of the time the GPU is slowed down by heat or its power supply, to 1000 of 2000 MHz, at up to 91 °C."
    )


@pytest.mark.parametrize(("clock_mhz", "fires"), [(1810.0, False), (1790.0, True)])
def test_fires_where_five_percent_would_be_won(clock_mhz: float, fires: bool) -> None:
    assert bool(check(slowed(clock_mhz=clock_mhz))) is fires


@pytest.mark.parametrize(("throttled_s", "fires"), [(9.0, False), (11.0, True)])
def test_a_cpu_tells_only_for_how_long(throttled_s: float, fires: bool) -> None:
    found = check(cpu(throttled_s))
    assert [(finding.severity, finding.share) for finding in found] == [(Severity.INFO, None)] * fires
