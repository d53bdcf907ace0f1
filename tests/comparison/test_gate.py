from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lightning_perfwatch.baseline import essence
from lightning_perfwatch.comparison import Failure, Limits, Slowdown, Verdict, judge
from lightning_perfwatch.finding import Severity
from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.report import Report
from tests.comparison.factories import counted, noisy_durations, run, run_of
from tests.reporters.factories import finding, run_info

QUIET = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01)


def baseline(num: int = 10, spread: float = 0.005) -> list[Report]:
    """Runs of about one second per interval, every second one slower by ``spread`` than the others."""
    return [run(*(s * (1 + spread * (number % 2) + 1e-6 * (number + 1)) for s in QUIET)) for number in range(num)]


def slower(factor: float) -> Report:
    return run(*(s * factor for s in reversed(QUIET)))


def test_a_run_of_the_same_speed_passes() -> None:
    verdict = judge(slower(1.0), baseline(), Limits())

    assert verdict.passes
    assert verdict.slowdown is not None
    assert verdict.slowdown.low_share < 0 < verdict.slowdown.high_share


def test_ten_percent_more_time_per_step_fail_with_their_figures() -> None:
    verdict = judge(slower(1.1), baseline(spread=0.0), Limits())

    assert verdict.failures == (Failure(slowdown=verdict.slowdown),)
    assert verdict.slowdown is not None
    assert verdict.slowdown.share == pytest.approx(0.1, abs=1e-3)
    assert verdict.slowdown.num_runs == 10
    assert verdict.slowdown.baseline == pytest.approx(20_480, rel=0.01)


def test_what_is_beyond_the_noise_but_within_the_limit_passes() -> None:
    verdict = judge(slower(1.1), baseline(), Limits(max_slowdown_share=0.2))

    assert verdict.passes
    assert verdict.slowdown is not None
    assert verdict.slowdown.is_slower


def test_what_is_beyond_the_limit_but_within_the_noise_passes() -> None:
    verdict = judge(slower(1.12), baseline(spread=0.2), Limits())

    assert verdict.passes
    assert verdict.slowdown is not None
    assert not verdict.slowdown.is_slower


def test_one_run_is_a_careful_baseline() -> None:
    """What runs usually differ by is assumed, and widely: 13 % either way."""
    assert judge(slower(1.12), baseline(1), Limits()).passes
    assert not judge(slower(1.16), baseline(1), Limits()).passes


def test_a_run_is_not_judged_by_itself() -> None:
    runs = baseline()
    verdict = judge(runs[3], runs, Limits())

    assert (verdict.is_in_baseline, verdict.passes) == (True, True)
    assert verdict.slowdown is not None
    assert verdict.slowdown.num_runs == 9
    alone = judge(runs[3], [runs[3]], Limits())
    assert (alone.slowdown, alone.is_in_baseline, alone.passes) == (None, True, True)


def test_runs_of_other_machines_are_left_out_of_account() -> None:
    other = [replace(one, run=run_info(device_name="Another")) for one in baseline(3)]
    verdict = judge(slower(1.0), [*other, *baseline(4)], Limits())

    assert verdict.slowdown is not None
    assert verdict.slowdown.num_runs == 4


def test_without_a_comparable_run_nothing_passes_in_silence() -> None:
    other = replace(slower(1.0), run=run_info(device_name="Another", torch_version="2.14"))

    with pytest.raises(ValueError, match=r"comparable .*device Some CPU there and Another here.*--update"):
        judge(other, baseline(), Limits())
    with pytest.raises(ValueError, match="holds no run yet"):
        judge(slower(1.0), [], Limits())


def test_another_batch_size_is_judged_by_tokens_and_by_steps_not_at_all() -> None:
    loader = LoaderInfo("DataLoader", num_workers=0, batch_size=64)
    large = run_of(counted([4 * s for s in QUIET], samples=640, tokens=81_920), loader=loader)
    assert judge(large, baseline(), Limits()).passes

    in_steps = [run_of(counted(QUIET, samples=None, tokens=None))]
    with pytest.raises(ValueError, match="batch size 16 there and 64 here"):
        judge(run_of(counted(QUIET, samples=None, tokens=None), loader=loader), in_steps, Limits())


@pytest.mark.parametrize("report", [run(*QUIET[:5]), run_of(None), run_of(counted(()))])
def test_a_run_that_is_too_short_can_not_be_judged(report: Report) -> None:
    with pytest.raises(ValueError, match=r"throughput intervals and 6 are needed; train more steps"):
        judge(report, baseline(), Limits())


def test_versions_that_differ_are_told_and_judged() -> None:
    newer = replace(slower(1.0), run=run_info(torch_version="2.15"))

    verdict = judge(newer, baseline(), Limits())

    assert [one.setting for one in verdict.doubts] == ["torch"]
    assert verdict.slowdown is not None


def test_named_rules_and_too_severe_findings_fail() -> None:
    found = run(findings=(finding(rule="host-sync"), finding(rule="gc-pause", severity=Severity.INFO)))

    def failed(limits: Limits) -> list[tuple[str, str | None]]:
        return [(one.finding.rule, one.limit) for one in judge(found, None, limits).failures if one.finding]

    assert failed(Limits(fail_on=("gc-pause",))) == [("gc-pause", "--fail-on gc-pause")]
    assert failed(Limits(max_severity=Severity.INFO)) == [("host-sync", "--max-severity info")]
    assert failed(Limits(max_severity=Severity.WARNING)) == []
    assert failed(Limits()) == []


def test_a_named_rule_that_could_not_judge_is_told() -> None:
    verdict = judge(run(skipped={"host-sync": "no step was audited"}), None, Limits(fail_on=("host-sync", "gc-pause")))

    assert verdict == Verdict(verdict.limits, not_judged=(("host-sync", "no step was audited"),))


def test_findings_that_the_newest_run_did_not_have_are_told() -> None:
    found = replace(slower(1.2), findings=(finding(rule="host-sync"),))

    assert [one.rule for one in judge(found, baseline(), Limits()).new_findings] == ["host-sync"]


@pytest.mark.parametrize(
    ("num_runs", "between", "most_alarms", "least_found"),
    [(10, 0.01, 0.005, 0.97), (10, 0.02, 0.01, 0.8), (20, 0.02, 0.02, 0.9)],
)
def test_repeated_runs_raise_no_alarm_and_ten_percent_are_found(
    num_runs: int, between: float, most_alarms: float, least_found: float
) -> None:
    """200 baselines, a run of the same speed and one that is 10 % slower for each: noise within and between runs."""
    alarms = found = 0
    for seed in range(200):
        chance = np.random.default_rng(seed)

        def one(factor: float, chance: np.random.Generator = chance) -> Report:
            return run(*(factor * s for s in noisy_durations(chance, 20, within=0.03, between=between)))

        runs = [one(1.0) for _ in range(num_runs)]
        alarms += not judge(one(1.0), runs, Limits()).passes
        found += not judge(one(1.1), runs, Limits()).passes

    assert alarms / 200 <= most_alarms
    assert found / 200 >= least_found


@pytest.mark.parametrize("disturbed_share", [0.3, 0.5])
def test_other_work_on_the_machine_hides_no_slow_down_and_is_none(disturbed_share: float) -> None:
    """Half a run's intervals, or none, meet other work: the means tell little, the faster intervals do."""
    alarms = found = found_as_a_whole = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)

        def one(factor: float, chance: np.random.Generator = chance) -> Report:
            share = disturbed_share * chance.random()
            extra = np.where(chance.random(40) < share, 0.5 * chance.random(40), 0.0)
            return run(*(factor * s * (1 + e) for s, e in zip(noisy_durations(chance, 40), extra, strict=True)))

        runs = [one(1.0) for _ in range(10)]
        alarms += not judge(one(1.0), runs, Limits()).passes
        verdict = judge(one(1.1), runs, Limits())
        found += not verdict.passes
        found_as_a_whole += verdict.failures == (Failure(slowdown=verdict.slowdown),)

    assert alarms <= 1
    assert found >= 90
    assert found > found_as_a_whole


LONG = 3 * QUIET


def long_baseline(num: int = 10) -> list[Report]:
    return [run(*(s * (1 + 1e-6 * (number + 1)) for s in LONG)) for number in range(num)]


def at_best_of(report: Report, runs: list[Report]) -> Slowdown:
    found = judge(report, runs, Limits()).at_best
    assert found is not None
    return found


def why_not(report: Report, runs: list[Report]) -> str | None:
    verdict = judge(report, runs, Limits())
    assert verdict.at_best is None
    return verdict.why_not_at_best


def test_a_run_that_stalls_now_and_then_is_slower_as_a_whole_only() -> None:
    stalling = run(*(2.0 * s if number % 6 == 0 else s for number, s in enumerate(LONG)))
    verdict = judge(stalling, long_baseline(), Limits())

    assert verdict.failures == (Failure(slowdown=verdict.slowdown),)
    assert not at_best_of(stalling, long_baseline()).is_slower


@pytest.mark.parametrize("factor", [1.1, 1.4, 1.5, 1.6, 3.0])
def test_however_slow_a_run_is_its_faster_intervals_are_compared(factor: float) -> None:
    """On a machine whose other work takes half of the time of every second interval."""
    runs = [run(*(2.0 * s if (number + one) % 2 else s for number, s in enumerate(LONG))) for one in range(10)]
    verdict = judge(
        run(*(factor * 2.0 * s if number % 2 else factor * s for number, s in enumerate(LONG))), runs, Limits()
    )

    assert not verdict.passes
    assert verdict.at_best is not None
    assert verdict.at_best.share == pytest.approx(factor - 1, abs=0.03)


def test_a_run_that_is_slow_at_its_best_and_fast_as_a_whole_passes() -> None:
    runs = [run(*(3.0 * s if number % 3 == 0 else s for number, s in enumerate(LONG))) for _ in range(10)]
    faster = run(*(1.3 * s for s in LONG))

    assert at_best_of(faster, runs).is_slower
    assert judge(faster, runs, Limits()).passes


def test_intervals_of_more_steps_are_compared_with_as_many_steps_taken_together() -> None:
    """60 at most are kept of a run in a baseline, and a run whose hooks cost too much has longer ones."""
    long = run_of(counted([2 * s for s in LONG], samples=320, tokens=40_960, num_steps=20))
    many = run(*(5 * LONG))

    assert at_best_of(many, [essence(run(*(5 * LONG), 1.0 + 1e-6 * number)) for number in range(6)]).num_runs == 6
    assert at_best_of(run(*LONG), [*long_baseline(6), long]).num_runs == 6
    assert abs(at_best_of(long, long_baseline()).share) < 0.02


def test_faster_intervals_are_not_compared_where_they_tell_nothing() -> None:
    varied = run_of(replace(counted(LONG), intervals=(
        *counted(LONG).intervals, *counted((1.0,) * 3, tokens=204_800).intervals,
    )))  # fmt: skip

    assert why_not(run(*LONG[:9]), long_baseline()) == "the run has fewer than 10 intervals of some 10 steps"
    assert why_not(run(*LONG), [*long_baseline(4), run(*LONG[:9])]) == (
        "4 runs of the baseline have 10 intervals of some 10 steps of the same work, and 5 are needed"
    )
    assert why_not(varied, long_baseline()) == "the work per step varies from interval to interval"
    assert at_best_of(run(*LONG), [*long_baseline(9), varied]).num_runs == 9


def test_few_fast_intervals_and_few_runs_are_no_alarm() -> None:
    """Four of five intervals meet other work: whether the quantile lies among them is chance."""
    alarms = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)
        one = [
            run(*(s * (1.3 if chance.random() < 0.8 else 1.0) for s in noisy_durations(chance, 27))) for _ in range(6)
        ]
        alarms += not judge(one[0], one[1:], Limits()).passes

    assert alarms <= 1


def test_runs_are_judged_by_the_rate_that_they_share() -> None:
    """One run of the baseline knows its tokens, another one its samples."""
    tokens = run_of(counted(QUIET, samples=None))
    samples = run_of(counted(QUIET, tokens=None))
    twice_the_batch = LoaderInfo("DataLoader", num_workers=0, batch_size=32)
    verdict = judge(
        run_of(counted(LONG, tokens=None, samples=320), loader=twice_the_batch), [tokens, samples], Limits()
    )

    assert verdict.slowdown is not None
    assert (verdict.slowdown.rate, verdict.slowdown.num_runs) == ("samples_per_s", 1)
    assert verdict.slowdown.share == pytest.approx(-0.5, abs=0.01)


def test_intervals_that_tell_nothing_leave_the_next_rate_to_judge_by() -> None:
    partly = counted(LONG)
    partly = replace(partly, intervals=(replace(partly.intervals[0], tokens=None), *partly.intervals[1:]))
    known = run_of(partly)
    known = replace(known, throughput=replace(known.throughput, tokens_per_s=20_480.0))
    verdict = judge(known, long_baseline(), Limits())

    assert verdict.slowdown is not None
    assert verdict.slowdown.rate == "samples_per_s"


@pytest.mark.parametrize("duration_s", [1e-320, 1e200, math.inf, math.nan, 0.0, -1.0])
def test_a_duration_that_was_never_measured_is_none(duration_s: float) -> None:
    damaged = counted(LONG)
    damaged = replace(damaged, intervals=(*damaged.intervals, replace(damaged.intervals[0], duration_s=duration_s)))
    verdict = judge(run_of(damaged, throughput=run(*LONG).throughput), long_baseline(), Limits())

    assert verdict.slowdown is not None
    assert abs(verdict.slowdown.share) < 0.01


def test_a_machine_that_is_too_noisy_finds_nothing_rather_than_crying_wolf() -> None:
    chance = np.random.default_rng(5)
    runs = [run(*noisy_durations(chance, 20, between=0.3)) for _ in range(10)]
    verdict = judge(run(*(1.1 * s for s in noisy_durations(chance, 20, between=0.0))), runs, Limits())

    assert verdict.passes
    assert verdict.slowdown is not None
    assert math.log1p(verdict.slowdown.high_share) - math.log1p(verdict.slowdown.low_share) > 1.0
