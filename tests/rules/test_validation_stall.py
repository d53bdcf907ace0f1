from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.validation_stall import ValidationStall
from tests.rules.factories import evidence, pauses


def check(found: Evidence) -> list[Finding]:
    return list(ValidationStall().check(found))


def validating(validation_s: float, count: int = 20, every: int | None = 5) -> Evidence:
    """Beside 10 s of training."""
    return evidence(
        wall_s={"training": 10.0, "validation": validation_s, "checkpoint": 0.0, "epoch_start": 0.0, "capture": 50.0},
        pauses=pauses(num_validations=count, val_check_interval=every),
    )


@pytest.mark.parametrize(("validation_s", "fires"), [(1.1, False), (1.12, True)])
def test_fires_from_ten_percent_of_the_wall_clock_on(validation_s: float, fires: bool) -> None:
    assert bool(check(validating(validation_s))) is fires


def test_silent_about_a_single_validation() -> None:
    assert check(validating(10.0, count=1)) == []


def test_skipped_when_the_wall_clock_is_not_known() -> None:
    assert ValidationStall().skip_reason(Evidence(missing=TRACE_ALONE)) == "a trace alone does not tell"
    assert ValidationStall().skip_reason(evidence(pauses=None)) == "validations and checkpoints were not counted"


def test_says_how_often_and_how_rarely_would_do() -> None:
    (finding,) = check(validating(10.0))
    assert (finding.severity, finding.share, finding.share_of) == (Severity.CRITICAL, 0.5, "run")
    assert "50 % of the run: 20 times (val_check_interval=5), 500 ms each" in finding.summary
    # 0.5 s beside n steps of 0.1 s are 5 % where n is 95.
    assert "val_check_interval=95)" in finding.advice


def test_validation_that_follows_epochs_should_follow_fewer_of_them() -> None:
    (finding,) = check(validating(10.0, every=None))
    assert "check_val_every_n_epoch=19)" in finding.advice
