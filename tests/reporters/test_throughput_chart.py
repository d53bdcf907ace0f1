from __future__ import annotations

from dataclasses import replace

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.measurements import Mark
from lightning_perfwatch.reporters.throughput_chart import in_words, kinds, rates
from tests.reporters.factories import intervals, marks, report


def counted(*parts: Interval) -> Counted:
    return Counted(20, 20, None, None, intervals=parts)


def test_one_interval_is_no_course() -> None:
    assert rates(report(counted=None)) is None
    assert rates(report(counted=counted(*intervals(100.0)))) is None


def test_tokens_over_wall_clock_are_drawn_where_both_are_known() -> None:
    shown = rates(report(counted=counted(*intervals(100.0, 120.0))))

    assert shown is not None
    assert (shown.name, shown.per_s, shown.x, shown.in_seconds) == ("tokens/s", (100.0, 120.0), (1.0, 2.2), True)


def test_without_a_clock_the_axis_is_steps() -> None:
    shown = rates(report(counted=counted(*intervals(100.0, 120.0, with_clock=False))))

    assert shown is not None
    assert (shown.x, shown.in_seconds) == ((9.0, 19.0), False)


def test_samples_or_steps_stand_in_for_tokens_that_are_not_known() -> None:
    without_tokens = [replace(part, tokens=None) for part in intervals(1.0, 1.0)]
    shown = rates(report(counted=counted(*without_tokens)))
    assert shown is not None
    assert (shown.name, shown.per_s) == ("samples/s", (80.0, 80.0))

    shown = rates(report(counted=counted(*(replace(part, samples=None) for part in without_tokens))))
    assert shown is not None
    assert (shown.name, shown.per_s) == ("steps/s", (10.0, 10.0))


def test_intervals_of_no_length_have_no_rate() -> None:
    first, second = intervals(1.0, 1.0)

    assert rates(report(counted=counted(first, replace(second, duration_s=0.0)))) is None


def test_the_sentence_has_range_and_marks() -> None:
    shown = rates(report(counted=counted(*intervals(4_000.0, 9_000.0, 5_000.0))))

    assert shown is not None
    assert in_words(shown, ()) == "3 intervals, from 4,000 to 9,000 tokens/s."
    assert in_words(shown, marks()) == (
        "3 intervals, from 4,000 to 9,000 tokens/s; 1 profiled window, 2 validations, 1 checkpoint."
    )


def test_marks_of_a_newer_version_are_left_out() -> None:
    assert kinds((Mark("earthquake", 1, 1.0, 1.0),)) == []
