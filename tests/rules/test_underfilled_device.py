from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules import all_rules
from lightning_perfwatch.rules.underfilled_device import UnderfilledDevice
from tests.rules.factories import loader
from tests.trace.factories import kernel, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(UnderfilledDevice().check(found))


def filling(blocks: float | None, busy: float = 95.0, **known: object) -> Evidence:
    work = kernel(0, busy)
    if blocks is not None:
        work["args"]["blocks per SM"] = blocks
    return Evidence(trace=trace(step(1, 0, 100), work), missing=TRACE_ALONE, **known)  # type: ignore[arg-type]


def test_silent_when_kernels_fill_the_device_or_it_has_nothing_to_do() -> None:
    assert check(filling(1.5)) == []
    assert check(filling(0.1, busy=40.0)) == []


def test_skipped_where_kernels_do_not_tell_their_size() -> None:
    assert UnderfilledDevice().skip_reason(filling(None)) == "the trace does not tell the sizes of kernels"
    assert UnderfilledDevice().skip_reason(Evidence()) == "no trace was recorded"


@pytest.mark.parametrize(("blocks", "fires"), [(0.51, False), (0.49, True)])
def test_fires_below_half(blocks: float, fires: bool) -> None:
    assert bool(check(filling(blocks))) is fires


def test_says_what_part_of_the_device_has_work() -> None:
    (finding,) = check(filling(0.2, loader=loader(batch_size=8)))
    assert finding.severity is Severity.CRITICAL
    assert finding.share == pytest.approx(0.95 * 0.8)
    assert "busy for 95 % of the time, but its kernels give work to only 20 %" in finding.summary
    assert finding.advice.startswith("Raise batch_size from 8 to 16")
    assert check(filling(0.2))[0].advice.startswith("Raise the batch size")


def test_it_is_a_symptom_of_whatever_leaves_the_device_idle() -> None:
    assert set(UnderfilledDevice.symptom_of) <= set(all_rules())
