from __future__ import annotations

from lightning_perfwatch.reporters.timeline_chart import LaneSummary, in_words, shown_names, summaries, texts
from lightning_perfwatch.trace import Timeline
from tests.reporters.factories import HOSTILE, lane, timeline


def test_a_lane_in_words_counts_nested_events_once() -> None:
    step = timeline()

    assert summaries(step, shown_names(step))[2:] == [
        LaneSummary("thread 1", 3, 5_900.0, 5_900 / 40_000, "aten::linear", 5_000.0),
        LaneSummary("device 0, stream 7", 2, 5_300.0, 5_300 / 40_000, "sgemm_128x64", 4_500.0),
    ]


def test_a_lane_without_events_has_no_longest_one() -> None:
    step = Timeline(None, 0.0, (), (lane(name="", kind="loader"),))

    assert summaries(step, []) == [LaneSummary("loader", 0, 0.0, 0.0, "", 0.0)]


def test_the_sentence_tells_what_is_left_out() -> None:
    assert in_words(timeline()) == "Step 22 of the trace: 40.0 ms, 9 events in 4 lanes."
    assert in_words(timeline(step=None, num_left_out=1_234)) == (
        "The profiled window: 40.0 ms, 9 events in 4 lanes; the 1,234 shortest are left out."
    )


def test_names_are_one_clean_line_each() -> None:
    step = timeline(names=(HOSTILE, "", "a\nb"), lanes=(lane((0, 0, 1, 0), name="\ud800\n"),))

    assert all(name.isprintable() for name in shown_names(step))
    assert shown_names(step)[1:] == ["(no name)", "a b"]
    assert texts(step, shown_names(step))["lanes"] == ["thread"]


def test_long_names_are_cut_and_many_are_cut_shorter() -> None:
    (few,) = {len(name) for name in shown_names(timeline(names=("x" * 1_000,) * 3))}
    (many,) = {len(name) for name in shown_names(timeline(names=("x" * 1_000,) * 30_000))}

    assert (few, many) == (300, 50)
