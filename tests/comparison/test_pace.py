"""How a machine that is faster or slower than before is allowed for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.baseline import essence
from lightning_perfwatch.comparison import Limits, compare, judge
from lightning_perfwatch.comparison.noise import between_runs
from lightning_perfwatch.comparison.pace import expected
from lightning_perfwatch.report import Report, from_json, to_json
from lightning_perfwatch.resources import Pace, ProcessorUse, Resources
from tests.comparison.factories import noisy_durations, run
from tests.reporters.factories import run_info

WORK_S = 4e-4


def at_pace(report: Report, pace: float, cores: float = 1.0, **changes: Any) -> Report:
    """``report`` of a machine on which the fixed work takes ``pace`` times as long, with so many CPUs in use."""
    use = ProcessorUse(
        num_steps=80, wall_s=10.0, running_s=9.0, delayed_s=0.0, process_s=10 * cores, num_cpus=2, num_threads=1
    )
    known = {"num_readings": 12, "work_s": WORK_S * pace, "work": "1", **changes}
    return replace(report, resources=Resources(processors=use, pace=Pace(**known)))


def one(chance: np.random.Generator, factor: float = 1.0, pace: float | None = None) -> Report:
    """A run on a machine of some pace, by chance up to 15 % slower than at other times, on which the step depends."""
    pace = math.exp(0.15 * chance.random()) if pace is None else pace
    durations_s = noisy_durations(chance, 40, within=0.02, between=0.01)
    return at_pace(run(*(factor * pace**1.2 * s for s in durations_s)), pace * math.exp(0.01 * chance.random()))


def baseline(seed: int = 0, num: int = 20) -> list[Report]:
    chance = np.random.default_rng(seed)
    return [one(chance) for _ in range(num)]


def without_pace(reports: list[Report]) -> list[Report]:
    return [replace(report, resources=None) for report in reports]


def test_a_slow_machine_raises_no_alarm_and_hides_no_slow_down() -> None:
    alarms = found = found_without = 0
    for seed in range(60):
        chance = np.random.default_rng(1000 + seed)
        runs = baseline(seed)
        alarms += not judge(one(chance), runs, Limits()).passes
        slower = one(chance, 1.1)
        found += not judge(slower, runs, Limits()).passes
        found_without += not judge(slower, without_pace(runs), Limits()).passes

    assert alarms == 0
    assert found >= 57
    assert found_without < 40


def test_a_machine_that_was_never_so_slow_is_no_slow_down() -> None:
    chance = np.random.default_rng(5)
    runs = [one(chance, pace=1.0) for _ in range(20)]
    slow = one(chance, pace=1.2)

    assert not judge(slow, without_pace(runs), Limits()).passes
    verdict = judge(slow, runs, Limits())
    assert verdict.passes
    assert verdict.slowdown is not None
    assert verdict.slowdown.pace_share == pytest.approx(0.2, abs=0.02)
    assert verdict.slowdown.low_share < -0.05  # how much the step depends on the pace is not known


def test_a_step_that_does_not_depend_on_the_pace_is_judged_as_without() -> None:
    """As where the step waits for something else: the pace varies and the step does not."""
    chance = np.random.default_rng(6)

    def steady(factor: float = 1.0) -> Report:
        durations_s = noisy_durations(chance, 40, within=0.01, between=0.01)
        return at_pace(run(*(factor * s for s in durations_s)), math.exp(0.3 * chance.random()))

    runs = [steady() for _ in range(20)]

    verdict = judge(steady(1.1), runs, Limits())
    assert not verdict.passes
    assert verdict.slowdown is not None
    assert abs(verdict.slowdown.expected_share) < 0.02
    assert judge(steady(), runs, Limits()).passes


def test_a_run_that_slows_its_own_machine_down_is_not_excused() -> None:
    chance = np.random.default_rng(7)
    runs = baseline()
    busier = at_pace(run(*(1.3 * s for s in noisy_durations(chance, 40))), 1.25, cores=1.9)

    verdict = judge(busier, runs, Limits())

    assert not verdict.passes
    assert verdict.slowdown is not None
    assert verdict.slowdown.pace_share is None
    assert verdict.why_not_paced is not None
    assert "take 1.9 CPUs, and took 1.0 at most" in verdict.why_not_paced


@pytest.mark.parametrize(
    ("runs", "now", "why"),
    [
        (baseline(num=7), {}, "7 runs of the baseline know the machine's pace by the same work, and 8 are needed"),
        (baseline(), {"num_readings": 9}, "the run has no 10 usable readings"),
        (baseline(), {"work": "2"}, "0 runs of the baseline"),
        (baseline(), {"work_s": 0.0}, "the run has no 10 usable readings"),
        (without_pace(baseline()), {}, "0 runs of the baseline"),
        (
            [replace(one, resources=replace(one.resources, processors=None)) for one in baseline() if one.resources],
            {},
            "it is not known how many CPUs",
        ),
        ([replace(one, run=run_info(python_version="3.9")) for one in baseline()], {}, "0 runs of the baseline"),
    ],
)
def test_a_pace_that_can_not_be_compared_is_not_allowed_for(runs: list[Report], now: dict[str, Any], why: str) -> None:
    verdict = judge(at_pace(run(*noisy_durations(np.random.default_rng(8), 40)), 1.0, **now), runs, Limits())

    assert verdict.slowdown is not None
    assert verdict.slowdown.pace_share is None
    assert verdict.why_not_paced is not None
    assert why in verdict.why_not_paced


def test_a_run_on_a_gpu_has_no_pace() -> None:
    on_gpu = [replace(one, run=run_info(device_type="cuda")) for one in baseline(num=21)]

    assert judge(on_gpu[0], on_gpu[1:], Limits()).why_not_paced == "only a run on CPUs has its machine's pace"


def test_figures_that_can_not_be_measured_are_no_pace() -> None:
    paces = [1.0, 1.1] * 10
    wild = [at_pace(run(*([1e-9, 1e9][number % 2] * s for s in (1.0,) * 8)), pace) for number, pace in enumerate(paces)]

    verdict = judge(at_pace(run(*(1e9,) * 8), 2000.0), wild, Limits())

    assert verdict.slowdown is not None


def test_runs_without_a_pace_are_left_out_where_enough_know_it() -> None:
    runs = baseline(num=12)
    mixed = [*without_pace(runs[:3]), *runs[3:]]

    verdict = judge(one(np.random.default_rng(9)), mixed, Limits())

    assert verdict.slowdown is not None
    assert verdict.slowdown.num_runs == 9


def test_what_is_expected_lies_on_the_line_and_is_surest_in_its_middle() -> None:
    paces = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]
    log_s = [1.2 * pace for pace in paces]
    middle = sum(paces) / len(paces)

    at_middle, noise_at_middle = expected(log_s, paces, middle, 0.99)
    far, noise_far = expected(log_s, paces, middle + 0.5, 0.99)

    assert at_middle == 0.0
    assert far == pytest.approx(0.6, rel=0.05)
    assert noise_far > noise_at_middle
    assert noise_at_middle < between_runs(log_s, 0.99)


def test_without_any_difference_in_pace_the_noise_is_that_between_runs() -> None:
    log_s = [0.0, 0.01, 0.03, -0.02, 0.01]

    explained, noise = expected(log_s, [-8.0] * 5, -8.0, 0.99)

    assert explained == 0.0
    assert noise == pytest.approx(between_runs(log_s, 0.99), rel=1e-6)


def test_two_runs_on_a_machine_of_another_pace_are_compared_with_care() -> None:
    first, second = at_pace(run(), 1.0), at_pace(run(1.1, 1.11, 1.09, 1.1, 1.12, 1.08), 1.1)

    (doubt,) = compare(first, second).doubts

    assert doubt.doubt == "the machine itself was slower after than before"
    assert (doubt.before, doubt.after) == ("400 µs", "440 µs")
    assert compare(second, first).doubts[0].doubt == "the machine itself was faster after than before"
    assert compare(first, at_pace(second, 1.03)).doubts == ()
    assert compare(first, at_pace(second, 1.1, work="2")).doubts == ()
    assert compare(first, replace(second, resources=None)).doubts == ()
    on_gpu = [replace(one, run=run_info(device_type="cuda")) for one in (first, second)]
    assert compare(*on_gpu).doubts == ()


def test_the_pace_is_kept_with_a_baseline() -> None:
    report = at_pace(run(), 1.1)

    assert from_json(to_json(essence(report))).resources == report.resources
