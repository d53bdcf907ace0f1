from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.device_copy import DeviceCopy
from lightning_perfwatch.rules.unpinned_copy import UnpinnedCopy
from tests.rules.factories import evidence, loader, on_gpu, step_times
from tests.trace.factories import call, copy, kernel, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(UnpinnedCopy().check(found))


def copying(length: float, kind: str = "HtoD (Pageable -> Device)") -> Evidence:
    """Steps of 100 µs: a copy, then a kernel."""
    events = []
    for number in range(4):
        begin = 100.0 * number
        events += [step(number, begin, 100), call(begin, 1), copy(begin, length, kind)]
        events.append(kernel(begin + length, 100 - length))
    return Evidence(trace=trace(*events), missing=TRACE_ALONE)


def test_silent_when_copies_are_short_pinned_or_hidden() -> None:
    assert check(copying(4)) == []
    assert check(copying(40, "HtoD (Pinned -> Device)")) == []
    hidden = trace(step(1, 0, 100), copy(0, 40), kernel(0, 100, stream=8), call(0, 1))
    assert check(Evidence(trace=hidden)) == []


def test_skipped_when_nothing_tells() -> None:
    assert UnpinnedCopy().skip_reason(Evidence())
    assert "neither a trace nor" in str(UnpinnedCopy().skip_reason(evidence(run=on_gpu(), loader=None)))


@pytest.mark.parametrize(("length", "fires"), [(4.9, False), (5.1, True)])
def test_fires_from_five_percent_on(length: float, fires: bool) -> None:
    assert bool(check(copying(length))) is fires


def test_batches_should_be_pinned_and_results_copied_into_a_pinned_buffer() -> None:
    (to_device,) = check(copying(30))
    assert to_device.severity is Severity.CRITICAL
    assert to_device.share == pytest.approx(0.3)
    assert "30 % of the time but copy to the GPU from pageable memory, once per step" in to_device.summary
    assert "pin_memory=True in the training DataLoader" in to_device.advice
    (to_host,) = check(copying(30, "DtoH (Device -> Pageable)"))
    assert "pin_memory=True).copy_" in to_host.advice


def test_more_than_there_is_to_hide_it_behind_can_not_be_hidden() -> None:
    (finding,) = check(copying(80))
    assert finding.share == pytest.approx(0.2)
    assert finding.evidence["exposed_share"] == pytest.approx(0.8)


def test_no_other_rule_speaks_of_the_same_copies() -> None:
    assert list(DeviceCopy().check(copying(30))) == []


class TestWithoutATrace:
    def test_the_transfer_on_the_devices_clock_counts(self) -> None:
        slow = evidence(steps=step_times(on_device=True, transfer=30.0), run=on_gpu())
        (finding,) = check(slow)
        assert finding.share == pytest.approx(30 / 129.9, rel=1e-3)
        assert "pin_memory=True" in finding.advice

    def test_silent_where_memory_is_pinned_the_copy_quick_or_there_is_no_gpu(self) -> None:
        slow = step_times(on_device=True, transfer=30.0)
        assert check(evidence(steps=slow, run=on_gpu(), loader=loader(pin_memory=True))) == []
        assert check(evidence(steps=step_times(on_device=True), run=on_gpu())) == []
        assert check(evidence(steps=slow)) == []
