from __future__ import annotations

import json
import math

import numpy as np
import pytest

from lightning_perfwatch.counts import Counted, Flops, Interval, Spread
from lightning_perfwatch.diagnosis import Diagnosis
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.measurements import PHASES, RankSummary, StepTimes
from lightning_perfwatch.report import Report, from_json, to_json
from lightning_perfwatch.trace import Lane, Timeline
from tests.reporters.factories import REPORTS, finding, report

CONTRACT = {
    "schema_version",
    "run",
    "throughput",
    "phases",
    "windows",
    "top_ops",
    "findings",
    "skipped",
    "overhead",
    "ranks",
    "window_s",
    "devices",
    "host_steps",
    "device_steps",
}


def interval(**changes: object) -> Interval:
    known: dict[str, object] = {
        "last_step": 10,
        "num_steps": 10,
        "duration_s": 2.0,
        "samples": 40,
        "tokens": 4000,
        "clean": True,
    }
    return Interval(**{**known, **changes})  # type: ignore[arg-type]


def counted(*intervals: Interval) -> Counted:
    return Counted(num_batches=20, num_optimizer_steps=20, samples=80, tokens=8000, intervals=intervals)


def rank(number: int, tokens_per_s: float | None, samples_per_s: float | None = 20.0) -> RankSummary:
    return RankSummary(number, "node", tokens_per_s, samples_per_s, 0.2, 0.1)


def steps(*rows: tuple[float, ...]) -> StepTimes:
    return StepTimes(np.array(rows, dtype=np.float64))


def report_of(evidence: Evidence) -> Report:
    return Report.of(evidence, Diagnosis())


def test_nothing_measured_is_none_everywhere() -> None:
    throughput = report_of(Evidence()).throughput

    assert throughput.tokens_per_s is throughput.samples_per_s is throughput.steps_per_s is None
    assert throughput.step_time_s is None
    assert throughput.mfu is None
    assert report_of(Evidence()).phases == {}


def test_mfu_is_the_models_rate_over_the_devices_peak() -> None:
    """Ten batches in two seconds on this rank, whatever other ranks do."""
    flops = Flops(4e12, "counted", "bf16", 200e12, "a datasheet")
    known = report_of(Evidence(counted=counted(interval()), flops=flops, ranks=(rank(0, 1.0), rank(1, 1.0))))

    assert known.throughput.model_tflops_per_s == pytest.approx(20.0)
    assert known.throughput.mfu == pytest.approx(0.1)
    assert from_json(to_json(known)).flops == flops


@pytest.mark.parametrize("flops", [None, Flops(), Flops(peak_flops_per_s=200e12)])
def test_without_flops_there_is_no_mfu(flops: Flops | None) -> None:
    throughput = report_of(Evidence(counted=counted(interval()), flops=flops)).throughput

    assert (throughput.model_tflops_per_s, throughput.mfu) == (None, None)


def test_without_a_peak_the_models_rate_stands_alone() -> None:
    throughput = report_of(Evidence(counted=counted(interval()), flops=Flops(4e12, "counted"))).throughput

    assert throughput.model_tflops_per_s == pytest.approx(20.0)
    assert throughput.mfu is None


def test_steps_that_were_never_taken_have_no_time_and_no_phases() -> None:
    empty = report_of(Evidence(steps=StepTimes(np.empty((0, len(PHASES))))))

    assert empty.throughput.step_time_s is None
    assert empty.phases == {}


def test_phases_add_up_to_the_step() -> None:
    measured = report_of(Evidence(steps=steps((1, 0, 2, 3, 1, 0, 1), (3, 0, 2, 3, 1, 0, 1))))

    assert tuple(measured.phases) == PHASES
    assert sum(phase.share for phase in measured.phases.values()) == pytest.approx(1.0)
    assert measured.throughput.step_time_s is not None
    assert sum(phase.s_per_step for phase in measured.phases.values()) == measured.throughput.step_time_s.mean
    assert measured.phases["data_wait"].s_per_step == 2.0


def test_throughput_is_the_sum_over_all_ranks() -> None:
    evidence = Evidence(counted=counted(interval()), ranks=(rank(0, 2000.0), rank(1, 1500.0)))
    throughput = report_of(evidence).throughput

    assert throughput.tokens_per_s == 3500.0
    assert throughput.tokens_per_s_rank == 2000.0
    assert throughput.samples_per_s == 40.0
    assert throughput.steps_per_s == 5.0


def test_one_rank_that_is_unknown_makes_the_sum_unknown() -> None:
    evidence = Evidence(counted=counted(interval()), ranks=(rank(0, 2000.0), rank(1, None)))

    assert report_of(evidence).throughput.tokens_per_s is None
    assert report_of(evidence).throughput.tokens_per_s_rank == 2000.0


def test_goodput_is_the_share_of_the_wall_clock_that_went_into_steps() -> None:
    wall_s = {"setup": 2.0, "training": 6.0, "validation": 1.5, "other": 0.5}

    assert report_of(Evidence(wall_s=wall_s)).throughput.goodput_share == 0.6
    assert report_of(Evidence(wall_s={"setup": 2.0})).throughput.goodput_share == 0.0
    for nothing in ({}, {"training": 0.0}, None):
        assert report_of(Evidence(wall_s=nothing)).throughput.goodput_share is None


def test_rates_carry_their_spread_and_padding_is_told_apart() -> None:
    spoiled = counted(*(interval(nonpadding_tokens=1000) for _ in range(6)))
    throughput = report_of(Evidence(counted=spoiled)).throughput

    assert throughput.nonpadding_tokens_per_s == 500.0
    assert throughput.intervals["tokens_per_s"] == Spread(2000.0, 2000.0, 2000.0, 6)
    stored = json.loads(to_json(report_of(Evidence(counted=spoiled))))["throughput"]["intervals"]
    assert stored["nonpadding_tokens_per_s"] == {"median": 500.0, "low": 500.0, "high": 500.0, "num_intervals": 6}


@pytest.mark.parametrize("name", [name for name in REPORTS if name != "hostile names"])
def test_a_report_comes_back_from_json_as_it_was(name: str) -> None:
    assert from_json(to_json(REPORTS[name])) == REPORTS[name]


def test_json_opens_with_the_schema_version_and_keeps_the_contract() -> None:
    document = json.loads(to_json(Report()))

    assert next(iter(document)) == "schema_version"
    assert document["schema_version"] == 1
    assert set(document) >= CONTRACT
    assert document["throughput"]["tokens_per_s"] is None


def test_a_finding_carries_its_gain_beside_its_share() -> None:
    found = (finding(share=0.5), finding(share=None), finding(share=1.0))
    document = json.loads(to_json(report(findings=found)))

    assert [(one["share"], one["gain"]) for one in document["findings"]] == [
        (0.5, 2.0),
        (None, None),
        (1.0, None),
    ]


def test_numbers_that_json_does_not_know_are_null_and_numpy_numbers_are_plain() -> None:
    evidence = {"nan": math.nan, "f": np.float64(0.5), "i": np.int64(3)}
    document = json.loads(to_json(report(findings=(finding(evidence=evidence),))))

    assert document["findings"][0]["evidence"] == {"nan": None, "f": 0.5, "i": 3}


def test_a_path_that_is_no_utf_8_does_not_cost_the_report() -> None:
    assert from_json(to_json(Report(directory="/logs/\udcff"))).directory == "/logs/?"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff\x00",
        b'{"schema_version": 2}',
        b"{}",
        b'{"schema_version": 1, "run": 5}',
        b'{"schema_version": 1, "phases": {"forward": {"share": "much"}}}',
    ],
)
def test_what_is_no_report_is_refused_with_a_sentence(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^This is no PerfWatch report: .*\.$"):
        from_json(text)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert from_json(b'{"schema_version": 1, "of_tomorrow": 1}') == Report()


def lane(num_events: int = 2, **changes: object) -> Lane:
    zeros = (0,) * num_events
    times = tuple(round(0.125 * event, 3) for event in range(num_events))
    known: dict[str, object] = {"name": "thread 1", "kind": "thread", "name_ids": zeros, "depths": zeros}
    return Lane(**{**known, "begin_us": times, "duration_us": times, **changes})  # type: ignore[arg-type]


def test_a_timeline_comes_back_from_json_and_each_lane_is_a_line() -> None:
    shown = Timeline(
        3, 12.5, ('a "quoted"\nname',), (lane(), lane(name="device 0, stream 7", device=0)), num_left_out=4
    )
    text = to_json(report(timeline=shown))

    assert from_json(text) == report(timeline=shown)
    assert sum('"name_ids"' in line for line in text.splitlines()) == 2
    assert from_json(to_json(Report(timeline=Timeline(None, 1.0, (), ())))).timeline == Timeline(None, 1.0, (), ())


def test_a_timeline_of_many_events_takes_few_bytes() -> None:
    """The other fields have a line per value, which would make this one 3 MB."""
    many = Timeline(3, 6250.0, ("a",), (lane(50_000),))

    assert len(to_json(Report(timeline=many))) < 1_500_000


def test_names_in_a_timeline_that_are_no_utf_8_do_not_cost_the_report() -> None:
    odd = Timeline(1, 1.0, ("\udcff",), (lane(name="thread \udcff"),))
    read = from_json(to_json(Report(timeline=odd))).timeline

    assert read is not None
    assert (read.names, read.lanes[0].name) == (("?",), "thread ?")


def test_steps_that_vary_are_remarked_on_and_even_ones_are_not() -> None:
    even = Evidence(steps=StepTimes(np.full((20, 7), 0.01)))
    uneven = np.full((20, 7), 0.01)
    uneven[-1] = 1.0
    assert Report.of(even, Diagnosis()).notes == ()
    (note,) = Report.of(Evidence(steps=StepTimes(uneven)), Diagnosis()).notes
    assert note.startswith("the step time varies: 416.5 ms on average, 70.0 ms in the median")
