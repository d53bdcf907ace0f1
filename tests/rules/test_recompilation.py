"""The rule ``recompilation``."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.interruptions import Compilation
from lightning_perfwatch.rules.recompilation import Recompilation
from tests.rules.factories import evidence, step_times

FIRST = Compilation(0, "forward", 9.0, file="/home/me/model.py", line=20)
SHAPE = Compilation(
    30, "forward", 0.5, "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4", FIRST.file, 20
)


def found(*compilations: Compilation, training_s: float = 10.0) -> list[Finding]:
    return list(Recompilation().check(evidence(compilations=compilations, wall_s={"training": training_s})))


def test_silent_when_nothing_or_only_what_had_to_be_was_compiled() -> None:
    assert found() == []
    assert found(FIRST) == []


def test_silent_when_the_time_is_nothing_beside_the_training() -> None:
    assert found(SHAPE, training_s=51.0) == []


def test_skipped_when_dynamo_was_not_watched() -> None:
    assert Recompilation().skip_reason(evidence(compilations=None)) is not None


@pytest.mark.parametrize(
    ("training_s", "severity"), [(50.0, Severity.INFO), (10.0, Severity.WARNING), (2.0, Severity.CRITICAL)]
)
def test_severity_is_that_of_the_time_lost(training_s: float, severity: Severity) -> None:
    (finding,) = found(FIRST, SHAPE, training_s=FIRST.compile_s + training_s)
    assert finding.severity is severity
    assert finding.share == pytest.approx(0.5 / training_s)


def test_a_step_that_compiles_loses_what_it_takes_longer_than_the_others() -> None:
    usual_s = float(step_times().computing_s[0])
    slow = replace(SHAPE, step_s=usual_s + 0.8)
    (finding,) = found(slow)
    assert finding.share == pytest.approx(0.08)
    assert finding.evidence["compile_s"] == 0.5
    (finding,) = found(slow, replace(slow, function="inner", compile_s=0.2))  # both in one step
    assert finding.share == pytest.approx(0.08)
    (finding,) = found(replace(SHAPE, step_s=0.55), replace(SHAPE, step=31))  # never less than dynamo's own figure
    assert finding.share == pytest.approx(0.1)


def test_silent_where_the_numbers_are_broken() -> None:
    assert found(replace(SHAPE, compile_s=math.nan)) == []
    assert found(SHAPE, training_s=math.nan) == []
    assert found(replace(FIRST, step_s=math.inf), SHAPE, training_s=10.0) == []


def test_what_the_first_step_loses_is_no_part_of_the_training() -> None:
    (finding,) = found(replace(FIRST, step_s=9.0 + float(step_times().computing_s[0])), SHAPE, training_s=14.0)
    assert finding.share == pytest.approx(0.1)
    (finding,) = found(replace(FIRST, step=1), SHAPE, training_s=14.0)
    assert finding.share == pytest.approx(0.5 / 14)


def test_a_function_that_is_compiled_no_more_costs_at_least_that() -> None:
    assert found(SHAPE)[0].share_is == "upper bound"
    seven = [replace(SHAPE, step=30 + number) for number in range(7)]
    assert found(FIRST, *seven)[0].share_is == "lower bound"
    assert found(*seven)[0].share_is == "upper bound"


def test_the_function_the_guard_and_the_steps_are_named() -> None:
    (finding,) = found(FIRST, SHAPE, replace(SHAPE, step=31), training_s=20.0)
    assert "forward(): 0/0: tensor 'x' size mismatch" in finding.summary
    assert (finding.where.file, finding.where.line, finding.where.steps) == ("/home/me/model.py", 20, (30, 31))
    assert "dynamic=True" in finding.advice


def test_a_number_that_changes_is_advised_to_be_a_tensor() -> None:
    (finding,) = found(replace(SHAPE, reason="1/1: n == 3"))
    assert "as a tensor" in finding.advice


def test_what_is_compiled_in_the_first_steps_has_to_be() -> None:
    assert found(replace(SHAPE, step=2)) == []
    (finding,) = found(replace(FIRST, step=3))
    assert "TORCH_LOGS=recompiles" in finding.advice
