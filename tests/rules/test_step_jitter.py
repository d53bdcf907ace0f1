from __future__ import annotations

import numpy as np
import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.measurements import PHASES, StepTimes
from lightning_perfwatch.rules.slow_hook import SlowHook
from lightning_perfwatch.rules.step_jitter import StepJitter
from tests.rules.factories import evidence, hook_time, run_info, step_times


def check(found: Evidence) -> list[Finding]:
    return list(StepJitter().check(found))


def stalling(stall_ms: float, every: int = 25, phase: str = "forward", num_steps: int = 100) -> StepTimes:
    """Steps of 100 ms, of which one in ``every`` takes longer."""
    seconds = step_times(num_steps).host_s.copy()
    seconds[every - 1 :: every, PHASES.index(phase)] += stall_ms / 1e3
    return StepTimes(seconds)


def test_silent_when_all_steps_are_equal_or_spread_a_little() -> None:
    assert check(evidence()) == []
    noisy = step_times(200).host_s * np.random.default_rng(0).normal(1.0, 0.15, (200, 1)).clip(0.5)
    assert check(evidence(steps=StepTimes(noisy))) == []


def test_skipped_with_too_few_steps() -> None:
    assert "19 steady steps" in str(StepJitter().skip_reason(evidence(steps=step_times(19))))
    assert StepJitter().skip_reason(Evidence())


def test_names_the_period_the_phase_and_the_length() -> None:
    (finding,) = check(evidence(steps=stalling(300.0)))
    assert finding.severity is Severity.WARNING
    assert finding.share == pytest.approx(12 / 112, rel=0.01)
    assert finding.summary.startswith("Every 25 steps the forward pass takes 300 ms longer: that is 11 % of the time")
    assert "every 25 steps" in finding.advice
    assert finding.evidence["num_stalls"] == 4


@pytest.mark.parametrize(("stall_ms", "fires"), [(130.0, False), (133.0, True)])
def test_fires_from_five_percent_of_the_time_on(stall_ms: float, fires: bool) -> None:
    assert bool(check(evidence(steps=stalling(stall_ms)))) is fires


def test_a_quarter_of_the_time_is_critical() -> None:
    assert check(evidence(steps=stalling(900.0)))[0].severity is Severity.CRITICAL


def test_the_period_survives_a_window_that_was_left_out() -> None:
    seconds = np.delete(stalling(300.0, every=10).host_s, slice(43, 47), axis=0)
    assert check(evidence(steps=StepTimes(seconds)))[0].evidence["period_steps"] == 10


def test_irregular_stalls_are_only_information_and_only_from_a_tenth_on() -> None:
    seconds = step_times(100).host_s.copy()
    seconds[[3, 17, 20, 60, 95], PHASES.index("forward")] += 0.2
    assert check(evidence(steps=StepTimes(seconds))) == []
    seconds[[3, 17, 20, 60, 95], PHASES.index("forward")] += 0.2
    (finding,) = check(evidence(steps=StepTimes(seconds)))
    assert finding.severity is Severity.INFO
    assert "at no regular interval" in finding.summary


def test_frequent_stalls_at_random_are_no_rhythm_of_two() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        seconds = step_times(60).host_s.copy()
        seconds[random.random(60) < 0.4, PHASES.index("backward")] += 0.2
        assert {finding.severity for finding in check(evidence(steps=StepTimes(seconds)))} <= {Severity.INFO}


def test_a_rhythm_that_ends_is_none() -> None:
    seconds = step_times(41).host_s.copy()
    seconds[[2, 9, 15], PHASES.index("backward")] += 1.0  # as other work on the machine may fall
    (finding,) = check(evidence(steps=StepTimes(seconds)))
    assert finding.severity is Severity.INFO


def test_a_short_rhythm_is_one() -> None:
    (finding,) = check(evidence(steps=stalling(300.0, every=3)))
    assert (finding.severity, finding.evidence["period_steps"]) == (Severity.CRITICAL, 3)


def test_two_stalls_are_no_rhythm() -> None:
    assert check(evidence(steps=stalling(2000.0, every=40))) == []


def test_waits_for_data_and_hooks_have_rules_of_their_own() -> None:
    assert check(evidence(steps=stalling(300.0, phase="data_wait"))) == []
    stalled = evidence(steps=stalling(300.0, phase="callbacks"), hooks=(hook_time(s_per_step=0.0124, max_s=0.3),))
    assert [finding.rule for finding in diagnose(stalled, [StepJitter(), SlowHook()]).findings] == ["slow-hook"]


def test_hooks_that_were_not_measured_are_judged_here() -> None:
    (finding,) = check(evidence(steps=stalling(300.0, phase="callbacks"), hooks=None))
    assert "callbacks and hooks" in finding.summary


@pytest.mark.parametrize("phase", ["optimizer", "backward"])
def test_the_last_of_accumulated_batches_does_more_and_that_is_no_stall(phase: str) -> None:
    steps = stalling(300.0, every=4, phase=phase)
    assert check(evidence(steps=steps, run=run_info(accumulate_grad_batches=4))) == []
    assert check(evidence(steps=steps))
