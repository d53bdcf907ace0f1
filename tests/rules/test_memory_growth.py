from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Growth, MemoryUse, Resources
from lightning_perfwatch.rules.memory_growth import MemoryGrowth
from tests.rules.factories import evidence, resources

GIB, MIB = 2**30, 2**20


def growing(*parts_mib: float, before_gib: float = 4.0, num_steps: int = 25) -> Evidence:
    """The host's memory grows so in parts of ``num_steps`` steps each."""
    growth = tuple(Growth(num_steps, int(part * MIB)) for part in parts_mib)
    used_bytes = int(before_gib * GIB + sum(parts_mib) * MIB)
    use = MemoryUse("cpu", used_bytes, num_steps * len(parts_mib), growth, capacity_bytes=32 * GIB)
    return evidence(resources=resources(host_memory=use))


def check(found: Evidence) -> list[Finding]:
    return list(MemoryGrowth().check(found))


def test_silent_where_memory_stays_or_comes_and_goes() -> None:
    assert check(evidence()) == []
    assert check(growing(900, -800, 900, 300)) == []
    assert check(growing(-900, -900, -900, -900)) == []


def test_silent_where_growth_levels_off() -> None:
    assert check(growing(2000, 500, 100, 0)) == []
    assert check(growing(0, 0, 0, 2000)) == []  # once


def test_skipped_with_few_steps_or_without_readings() -> None:
    rule = MemoryGrowth()
    assert "48 steady steps" in str(rule.skip_reason(growing(500, 500, 500, 500, num_steps=12)))
    unread = Resources(missing={"host_memory": "no /proc"})
    assert rule.skip_reason(evidence(resources=unread)) == "no /proc"
    assert rule.skip_reason(Evidence())


def test_a_leak_is_told_by_the_step_and_by_when_memory_is_full() -> None:
    (finding,) = check(growing(1024, 1024, 1024, 1024))
    assert (finding.severity, finding.share) == (Severity.WARNING, None)
    assert finding.summary == (
        "The host's memory in use grows by 41.0 MiB per step, by 4.0 GiB in 100 steps; "
        "at this rate 32 GiB are full after 600 more steps."
    )
    assert "loss.detach()" in finding.advice
    assert finding.evidence["per_step_bytes"] == pytest.approx(40.96 * MIB)


@pytest.mark.parametrize(("part_mib", "fires"), [(255, False), (256, True)])
def test_fires_from_a_gib_on(part_mib: float, fires: bool) -> None:
    assert bool(check(growing(*[part_mib] * 4))) is fires


@pytest.mark.parametrize(("part_mib", "before_gib", "fires"), [(80, 0.5, True), (80, 0.7, False), (60, 0.1, False)])
def test_fires_earlier_where_it_is_a_large_part(part_mib: float, before_gib: float, fires: bool) -> None:
    assert bool(check(growing(*[part_mib] * 4, before_gib=before_gib))) is fires


def test_a_few_readings_tell_no_rhythm() -> None:
    assert check(growing(2000, 2000, 2000, num_steps=50)) == []


def test_device_and_host_are_told_apart() -> None:
    growth = tuple(Growth(25, GIB) for _ in range(4))
    device = MemoryUse("cuda", 10 * GIB, 100, growth)
    both = resources(memory=device, host_memory=MemoryUse("cpu", 8 * GIB, 100, growth))
    summaries = [finding.summary for finding in check(evidence(resources=both))]
    assert [summary.partition(" memory")[0] for summary in summaries] == ["The device's", "The host's"]
    assert "are full" not in summaries[0]
