from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.device_copy import DeviceCopy
from tests.trace.factories import call, copy, kernel, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(DeviceCopy().check(found))


def copying(length: float, kind: str = "HtoD (Pinned -> Device)", num_steps: int = 4) -> Evidence:
    """Steps of 100 µs: a copy, then a kernel."""
    events = []
    for number in range(num_steps):
        begin = 100.0 * number
        events += [step(number, begin, 100), call(begin, 1), copy(begin, length, kind)]
        events.append(kernel(begin + length, 100 - length))
    return Evidence(trace=trace(*events), missing=TRACE_ALONE)


def test_silent_when_copies_are_short_or_few() -> None:
    assert check(copying(4)) == []
    assert check(copying(40, num_steps=2)) == []


def test_skipped_without_a_trace() -> None:
    assert DeviceCopy().skip_reason(Evidence()) == "no trace was recorded"


@pytest.mark.parametrize(("length", "fires"), [(4.9, False), (5.1, True)])
def test_fires_from_five_percent_on(length: float, fires: bool) -> None:
    assert bool(check(copying(length))) is fires


def test_what_no_other_work_can_hide_is_not_to_be_gained() -> None:
    (finding,) = check(copying(80))
    assert finding.share == pytest.approx(0.2)
    assert finding.severity is Severity.WARNING
    assert "For 80 % of the time the device only copies from the host" in finding.summary
    assert "other work could hide 20 %" in finding.summary
    assert [found.severity for found in check(copying(97))] == [Severity.INFO]
    (within,) = check(copying(80, "DtoD (Device -> Device)"))
    assert within.share == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("kind", "way", "fix"),
    [
        ("HtoD (Pinned -> Device)", "from the host", "stream of its own"),
        ("DtoH (Device -> Pinned)", "to the host", "every 50 steps"),
        ("DtoD (Device -> Device)", "within its own memory", ".clone()"),
        ("PtoP (Device -> Device)", "another device", "one device"),
    ],
)
def test_the_advice_fits_the_direction(kind: str, way: str, fix: str) -> None:
    (finding,) = check(copying(30, kind))
    assert finding.severity is Severity.CRITICAL
    assert finding.share == pytest.approx(0.3)
    assert way in finding.summary
    assert fix in finding.advice
