"""The phases of a step have their labels in a trace, and nothing is added to steps that are not recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightning_perfwatch.live.contexts import OwnContext
from lightning_perfwatch.live.labels import LABELS, LabelledContext
from tests.live.factories import (
    BACKWARD,
    BATCH,
    BATCH_MS,
    CALLBACK_END,
    FETCH,
    OPTIMIZER_STEP,
    RUN_EPOCH,
    TO_DEVICE,
    TRAINING_STEP,
    HostClock,
    PassThroughProfiler,
    RecordingProfiler,
    end_step,
    listener_in_step,
    phases_ms,
    play,
)
from tests.reports.harness import Module, fit, perfwatch, profiler_steps, read_events, trace_files


def test_outside_of_a_window_the_timers_own_contexts_are_all_that_is_entered() -> None:
    listener = listener_in_step(PassThroughProfiler())
    assert isinstance(listener.profile(TRAINING_STEP), OwnContext)

    listener.timer.window_begins()
    assert isinstance(listener.profile(TRAINING_STEP), LabelledContext)

    listener.timer.window_ends()
    assert isinstance(listener.profile(TRAINING_STEP), OwnContext)


def test_only_the_phases_get_a_label() -> None:
    listener = listener_in_step(PassThroughProfiler())
    listener.label(True)

    labelled = [
        action
        for action in (
            FETCH,
            TO_DEVICE,
            TRAINING_STEP,
            BACKWARD,
            OPTIMIZER_STEP,
            CALLBACK_END,
            RUN_EPOCH,
            "optimizer_step",
        )
        if isinstance(listener.profile(action), LabelledContext)
    ]
    assert labelled == [TO_DEVICE, TRAINING_STEP, BACKWARD, OPTIMIZER_STEP]


@pytest.mark.parametrize("inner", [PassThroughProfiler, RecordingProfiler])
def test_times_and_counted_actions_are_the_same_with_labels(clock: HostClock, inner: Any) -> None:
    listener = listener_in_step(inner())
    names: list[str] = []
    listener.count_actions(names)
    listener.label(True)
    play(listener, clock, [0.0, *BATCH])
    listener.count_actions(None)

    assert phases_ms(end_step(listener.timer)) == BATCH_MS
    assert names
    assert isinstance(listener.profile(TRAINING_STEP), LabelledContext)


def test_every_recorded_step_holds_each_label_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watch = perfwatch()
    fit(watch, Module())

    (path,) = trace_files()
    events = read_events(path)
    labels = [event for event in events if event["name"] in LABELS.values()]
    assert {event["cat"] for event in labels} == {"user_annotation"}
    steps = profiler_steps(events)
    assert len(steps) == 3
    for step in steps:
        end = step["ts"] + step["dur"]
        inside = [event["name"] for event in labels if step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= end]
        assert sorted(inside) == ["backward", "forward", "optimizer", "transfer"]
    assert len(labels) == 4 * len(steps)
    assert watch.report is not None and watch.report.timeline is not None
    (phases,) = (lane for lane in watch.report.timeline.lanes if lane.kind == "phases")
    shown = [watch.report.timeline.names[name] for name in phases.name_ids]
    assert [name for name in shown if "#" not in name] == ["transfer", "optimizer", "forward", "backward"]
