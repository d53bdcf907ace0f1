from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Growth, MemoryUse, Resources
from lightning_perfwatch.rules.memory_growth import MemoryGrowth
from lightning_perfwatch.rules.memory_pressure import MemoryPressure
from tests.rules.factories import evidence, loader, on_gpu, resources
from tests.trace.factories import memory, step, trace

GIB = 2**30


def filled(peak_gib: float, **changes: Any) -> Evidence:
    """A run on a GPU of 80 GiB."""
    use = MemoryUse("cuda", used_bytes=GIB, peak_bytes=int(peak_gib * GIB), capacity_bytes=80 * GIB, num_steps=100)
    return evidence(run=on_gpu(), resources=resources(memory=use), **changes)


def check(found: Evidence) -> list[Finding]:
    return list(MemoryPressure().check(found))


def test_silent_with_room_and_on_a_cpu() -> None:
    assert check(filled(60.0)) == []
    assert check(evidence()) == []
    assert MemoryPressure().skip_reason(evidence()) is None


def test_skipped_where_memory_can_not_be_read() -> None:
    rule = MemoryPressure()
    unread = resources(missing={"memory": "torch does not tell the memory of hpu"})
    assert rule.skip_reason(evidence(resources=unread)) == "torch does not tell the memory of hpu"
    unsized = resources(memory=MemoryUse("mps", used_bytes=GIB))
    assert rule.skip_reason(evidence(resources=unsized)) == "the size of the memory of mps is not known"
    bare = Evidence(trace=trace(step(1, 0, 100)), missing=TRACE_ALONE)
    assert rule.skip_reason(bare) == "the trace does not tell what the device's memory holds"


def test_names_the_peak_and_a_smaller_batch() -> None:
    (finding,) = check(filled(75.0, loader=loader(batch_size=48)))
    assert (finding.severity, finding.share) == (Severity.WARNING, None)
    assert finding.summary.startswith("Tensors take up to 75.0 GiB of the device's 80.0 GiB (94 %)")
    assert finding.advice.startswith("Set batch_size=24 with accumulate_grad_batches=2")


@pytest.mark.parametrize(
    ("peak_gib", "severities"),
    [(73.5, []), (73.7, [Severity.WARNING]), (77.5, [Severity.WARNING]), (77.7, [Severity.CRITICAL])],
)
def test_warns_from_92_percent_and_is_critical_from_97(peak_gib: float, severities: list[Severity]) -> None:
    assert [finding.severity for finding in check(filled(peak_gib))] == severities


def test_a_batch_of_one_can_not_be_halved() -> None:
    assert check(filled(75.0, loader=loader(batch_size=1)))[0].advice.startswith("Use a smaller batch")


def test_a_trace_of_memory_tells_it_too() -> None:
    events = [memory(10, 95, **{"Total Allocated": 950}), memory(20, -95, **{"Total Allocated": 855})]
    devices = [{"id": 0, "name": "A100", "totalGlobalMem": 1000}, "nonsense"]
    (finding,) = check(Evidence(trace=trace(step(1, 0, 100), *events, deviceProperties=devices), missing=TRACE_ALONE))
    assert finding.severity is Severity.WARNING
    assert finding.evidence["peak_bytes"] == 950


def test_memory_that_grows_is_its_cause() -> None:
    growth = tuple(Growth(25, 15 * GIB) for _ in range(4))
    use = MemoryUse("cuda", 78 * GIB, 100, growth, peak_bytes=79 * GIB, capacity_bytes=80 * GIB)
    ill = evidence(run=on_gpu(), resources=Resources(memory=use))
    found = diagnose(ill, [MemoryPressure(), MemoryGrowth()]).findings
    assert [finding.rule for finding in found] == ["memory-growth"]
