"""Public reports on the schedule's windows: which steps are recorded, and what never is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from lightning_perfwatch import Schedule
from tests.reports.harness import (
    Module,
    evidence,
    fit,
    loader,
    perfwatch,
    phase_ms,
    profiler_steps,
    read_events,
    steps_of,
    trace_files,
)

MARK = "validation of the user"


class Marked(Module):
    """Leaves a mark in the trace for every batch of validation."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        with torch.profiler.record_function(MARK):
            super().validation_step(batch, batch_idx)


@pytest.mark.parametrize("num_batches", range(8))
def test_a_trace_holds_exactly_the_complete_steps_of_its_window(num_batches: int) -> None:
    """PT#91682, PT#83835, PT#121126 (16): neither a phantom step nor an empty one, whatever the length of the run."""
    watch = perfwatch()
    fit(watch, train=loader(num_batches))

    recorded = [step for step in (2, 3, 4) if step < num_batches]
    traces = [steps_of(path) for path in trace_files()]
    assert [list(trace) for trace in traces] == ([recorded] if recorded else [])
    assert all(num_operators > 0 for trace in traces for num_operators in trace.values())
    if watch.report is not None and recorded:
        (window,) = watch.report.windows
        assert (window.num_steps, window.planned_steps) == (len(recorded), 3)
        assert window.partial == (len(recorded) < 3)
        assert (window.reason is not None) == window.partial


def test_as_many_windows_as_asked_for_are_recorded_in_full() -> None:
    """PL#14063 (17): ``repeat`` is kept and the end of the run adds no phantom window."""
    watch = perfwatch(schedule=Schedule(skip_first=0, wait=2, warmup=1, active=3, repeat=5))
    fit(watch, train=loader(40))

    first = [3, 9, 15, 21, 27]
    assert [list(steps_of(path)) for path in trace_files()] == [[step, step + 1, step + 2] for step in first]
    assert watch.report is not None
    assert [window.first_step for window in watch.report.windows] == first
    assert not any(window.partial for window in watch.report.windows)


def test_the_sanity_check_is_neither_recorded_nor_counted() -> None:
    """PL#1391 (22): validation before training leaves no trace, even in a window that begins at once."""
    fit(
        perfwatch(schedule=Schedule(skip_first=0, wait=0, warmup=1, active=3)),
        Marked(validation_s=0.03),
        val=loader(4),
        num_sanity_val_steps=2,
        check_val_every_n_epoch=2,
    )

    (trace,) = trace_files()
    assert list(steps_of(trace)) == [1, 2, 3]
    assert not any(event["name"] == MARK for event in read_events(trace))
    measured = evidence()
    assert measured.counted is not None and measured.counted.num_batches == 10
    assert measured.wall_s is not None and measured.wall_s["validation"] == 0.0


def test_validation_inside_a_window_belongs_to_no_step() -> None:
    """PL#10717, PL PR#10837 (23): it neither advances the schedule nor lies in the step after it."""
    fit(perfwatch(), Marked(validation_s=0.03), val=loader(2), val_check_interval=2, num_sanity_val_steps=0)

    (trace,) = trace_files()
    events = read_events(trace)
    steps = profiler_steps(events)
    marks = [event for event in events if event["name"] == MARK]
    assert list(steps_of(trace)) == [2, 3, 4]
    assert len(marks) == 4, "two batches before step 2, when the window is open already, and two before step 4"
    assert all(mark["ts"] > step["ts"] + step["dur"] or mark["ts"] < step["ts"] for mark in marks for step in steps)
    wall_s = evidence().wall_s
    assert wall_s is not None and wall_s["validation"] > 5 * 2 * 0.03
    assert sum(sum(phase) for phase in phase_ms().values()) < 5 * 2 * 30 / 2


class AsksItself(Module):
    """A training step that fetches its own batch."""

    def training_step(self, dataloader_iter: Any) -> Any:  # type: ignore[override]
        batch, batch_idx, _ = next(dataloader_iter)
        return super().training_step(batch, batch_idx)


@pytest.mark.filterwarnings("ignore:.*`dataloader_iter`:UserWarning")  # Lightning calls it experimental
def test_a_training_step_that_fetches_its_own_batches_is_watched() -> None:
    """PL PR#8807, PR#16062, PR#18376 (24): the hook gets no batch at the start, and the fetch lies inside the step."""
    watch = perfwatch(schedule=Schedule(skip_first=0, wait=4, warmup=1, active=3))
    fit(watch, AsksItself(forward_s=0.03), train=loader(14, load_s=0.01))

    (trace,) = trace_files()
    assert list(steps_of(trace)) == [5, 6, 7]
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(profiler_steps(read_events(trace))))
    counted = evidence().counted
    assert counted is not None and (counted.num_batches, counted.samples) == (14, 28)
    steps = phase_ms()
    assert min(steps["data_wait"]) >= 20, "two samples of 10 ms each are fetched within the step"
    assert min(steps["forward"]) >= 30
