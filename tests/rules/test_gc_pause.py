"""The rule ``gc-pause``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.interruptions import GcPauses
from lightning_perfwatch.rules.gc_pause import GcPause
from tests.rules.factories import evidence

NONE = tuple(GcPauses(generation, 0, 0.0, 0.0, 40, 4.0) for generation in range(3))


def oldest(total_s: float, **changes: object) -> tuple[GcPauses, ...]:
    known = replace(NONE[2], num_collections=4, total_s=total_s, max_s=total_s / 2)
    return (*NONE[:2], replace(known, **changes))  # type: ignore[arg-type]


def found(pauses: tuple[GcPauses, ...]) -> list[Finding]:
    return list(GcPause().check(evidence(gc=pauses)))


def test_silent_where_nothing_was_collected() -> None:
    assert found(NONE) == []


def test_silent_when_the_pauses_are_short() -> None:
    assert found(oldest(0.079)) == []


def test_skipped_when_collections_were_not_watched_or_in_too_few_steps() -> None:
    assert GcPause().skip_reason(evidence(gc=None)) is not None
    few = tuple(replace(one, num_steps=2) for one in NONE)
    assert GcPause().skip_reason(evidence(gc=few)) == "2 steady steps are too few, 3 are needed"


@pytest.mark.parametrize(
    ("total_s", "severity"), [(0.08, Severity.INFO), (0.2, Severity.WARNING), (1.0, Severity.CRITICAL)]
)
def test_severity_grows_with_the_share(total_s: float, severity: Severity) -> None:
    (finding,) = found(oldest(total_s))
    assert finding.severity is severity
    assert finding.share == pytest.approx(total_s / 4)


def test_the_collectors_own_pauses_are_advised_to_be_made_short() -> None:
    (finding,) = found(oldest(0.4))
    assert "4 collections of generation 2 in 40 steps, 100.0 ms each and 200.0 ms at most" in finding.summary
    assert "gc.freeze()" in finding.advice
    assert finding.where.file is None


def test_a_call_is_named_by_its_line() -> None:
    (finding,) = found(oldest(0.4, num_called=4, called_s=0.4, file="/home/me/train.py", line=31))
    assert (finding.where.file, finding.where.line) == ("/home/me/train.py", 31)
    assert finding.advice.startswith("Drop the call of gc.collect()")


def test_young_generations_are_advised_to_begin_more_rarely() -> None:
    young = (replace(NONE[0], num_collections=400, total_s=0.4, max_s=0.002), *NONE[1:])
    (finding,) = found(young)
    assert "gc.set_threshold" in finding.advice


def test_all_generations_count_together() -> None:
    young = replace(NONE[0], num_collections=400, total_s=0.1, max_s=0.002)
    (finding,) = found((young, *oldest(0.15)[1:]))
    assert finding.share == pytest.approx(0.25 / 4)
    assert "generation 2" in finding.summary


def test_pauses_that_cover_more_than_the_steps_are_all_of_them() -> None:
    assert diagnose(evidence(gc=oldest(9.0)), [GcPause()]).findings[0].share == 1.0
