from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.checkpoint_stall import CheckpointStall
from tests.rules.factories import evidence, pauses


def check(found: Evidence) -> list[Finding]:
    return list(CheckpointStall().check(found))


def saving(checkpoint_s: float, count: int = 20, every: int | None = 1, training_s: float = 10.0) -> Evidence:
    return evidence(
        wall_s={"training": training_s, "validation": 0.0, "checkpoint": checkpoint_s, "capture": 50.0},
        pauses=pauses(num_checkpoints=count, checkpoint_every_n_steps=every),
    )


@pytest.mark.parametrize(("checkpoint_s", "fires"), [(0.52, False), (0.53, True)])
def test_fires_from_five_percent_of_the_wall_clock_on(checkpoint_s: float, fires: bool) -> None:
    assert bool(check(saving(checkpoint_s))) is fires


def test_silent_about_two_checkpoints_and_about_half_a_second() -> None:
    assert check(saving(5.0, count=2)) == []
    assert check(saving(0.4, training_s=1.0)) == []


def test_skipped_when_they_were_not_counted() -> None:
    assert CheckpointStall().skip_reason(evidence(pauses=None)) == "validations and checkpoints were not counted"


def test_says_how_many_and_how_rarely_would_do() -> None:
    (finding,) = check(saving(10.0))
    assert (finding.severity, finding.share, finding.share_of) == (Severity.CRITICAL, 0.5, "run")
    assert "20 of them (every_n_train_steps=1), 500 ms each" in finding.summary
    assert "every_n_train_steps=49)" in finding.advice  # then 2 %
    assert "AsyncCheckpointIO" in finding.advice


def test_checkpoints_that_follow_epochs_should_follow_fewer_of_them() -> None:
    (finding,) = check(saving(10.0, every=None))
    assert "every_n_epochs=49)" in finding.advice
