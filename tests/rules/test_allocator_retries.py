from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import MemoryUse
from lightning_perfwatch.rules.allocator_retries import AllocatorRetries
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, on_gpu, resources
from tests.trace.factories import Json, call, frame, kernel, step, trace


def counted(retries: int | None, **changes: Any) -> Evidence:
    """A run on a GPU of 200 steady steps."""
    use = MemoryUse("cuda", used_bytes=2**30, num_steps=200, num_retries=retries, num_ooms=0)
    return evidence(run=on_gpu(), resources=resources(memory=use), **changes)


def freeing(us: float, *others: Json) -> Trace:
    """A step of 100 us in which the device is busy for 50 and then waits while memory is given back for ``us``."""
    return trace(step(1, 0, 100), kernel(0, 50), call(40, 10 + us, "cudaFree"), *others)


def check(found: Evidence) -> list[Finding]:
    return list(AllocatorRetries().check(found))


def test_silent_where_the_allocator_keeps_what_it_has() -> None:
    assert check(evidence()) == []
    assert check(counted(0)) == []
    assert check(counted(1)) == []  # in 200 steps
    assert check(counted(0, trace=trace(step(1, 0, 100), call(0, 50, "cudaMalloc"), kernel(60, 30)))) == []


def test_skipped_where_nothing_tells() -> None:
    rule = AllocatorRetries()
    assert rule.skip_reason(evidence()) is None  # a CPU has no such allocator
    assert rule.skip_reason(counted(None)) == "the allocator of cuda does not tell"
    assert rule.skip_reason(evidence(resources=resources(missing={"memory": "no answer"}))) == "no answer"
    assert rule.skip_reason(Evidence())


def test_retries_are_counted() -> None:
    (finding,) = check(counted(7))
    assert (finding.severity, finding.share) == (Severity.WARNING, None)
    assert finding.summary.startswith("The device's memory ran full 7 times in 200 steps")
    assert "expandable_segments:True" in finding.advice


def test_the_trace_tells_what_retries_cost() -> None:
    (finding,) = check(counted(7, trace=freeing(30, call(85, 10, "cudaMalloc"))))
    assert finding.share == pytest.approx(0.4)
    assert finding.severity is Severity.CRITICAL
    assert "given back to the driver 1 times and taken 1 times, in 1 of 1 steps" in finding.summary
    assert "expandable_segments:True" in finding.advice


def test_without_a_retry_it_is_the_code_that_empties_the_cache() -> None:
    recorded = freeing(20, frame("train.py(40): training_step", 30, 60))
    (finding,) = check(counted(0, trace=recorded))
    assert finding.advice.startswith("Take torch.cuda.empty_cache() out of the step")
    assert "no retry of the allocator is the reason" in finding.summary
    assert (finding.where.file, finding.where.line) == ("train.py", 40)


@pytest.mark.parametrize(
    ("us", "severities"), [(0.9, []), (1.1, [Severity.INFO]), (4.9, [Severity.INFO]), (5.1, [Severity.WARNING])]
)
def test_a_bare_trace_is_judged_by_what_the_device_waits(us: float, severities: list[Severity]) -> None:
    found = check(Evidence(trace=freeing(us), missing=TRACE_ALONE))
    assert [finding.severity for finding in found] == severities
    assert all("empty_cache" in finding.advice and "smaller batch" in finding.advice for finding in found)
