from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from lightning_perfwatch.live.actions import Part
from lightning_perfwatch.live.budget import Budget
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.step_count import StepCount
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.live.windows import Windows
from lightning_perfwatch.measurements import Window
from tests.live.factories import FETCH, TRAINING_STEP, end_step
from tests.live.traces import document_of, files, new_capture, spans, steps_of, work

LOSS = torch.ones(())

SCHEDULE = Schedule(skip_first=1, wait=2, warmup=1, active=3)  # .aawRRR
pytestmark = pytest.mark.usefixtures("nothing_compiled")


def collate(samples: list[torch.Tensor]) -> torch.Tensor:
    work()
    return torch.stack(samples)


class Loop:
    """A training loop as the Trainer announces it; every batch and every step multiplies two matrices once."""

    def __init__(self, directory: Path | None, schedule: Schedule = SCHEDULE, **arguments: Any) -> None:
        options = arguments.pop("options", TraceOptions())
        capture = None if directory is None else new_capture(directory, options=options)
        data: Any = [torch.zeros(2)] * 200
        loader = DataLoader(data, batch_size=2, collate_fn=collate)
        self.timer = PhaseTimer("PerfWatch")
        self.windows = Windows(schedule, self.timer, loader, capture, **arguments)
        self.closed: dict[int, Window] = {}
        self.outside: dict[int, dict[Part, int]] = {}
        self._batches = iter(loader)
        self._step = 0

    def step(self) -> Iterator[int]:
        """One step; yields where the module's own code runs."""
        step = self._step
        with self.timer.profile(FETCH):
            next(self._batches)
        self.windows.step_started()
        with self.timer.profile(TRAINING_STEP):
            work()
            yield step
        self._step += 1
        self.outside[step] = end_step(self.timer).outside_ns
        window = self.windows.step_ended(step)
        if window is not None:
            self.closed[step] = window

    def run(self, num_steps: int) -> None:
        for _ in range(num_steps):
            for _ in self.step():
                LOSS.item()


def test_where_nothing_is_to_be_recorded_steps_are_audited_all_the_same() -> None:
    loop = Loop(None)
    loop.run(10)

    assert (loop.windows.finish(), loop.windows.done, loop.windows.notes, loop.closed) == (None, [], [], {})
    assert loop.windows.syncs is not None
    assert loop.windows.syncs.num_steps == 2


def test_the_last_audited_step_is_counted_whether_a_window_follows_or_not(tmp_path: Path) -> None:
    for directory in (None, tmp_path):
        count = StepCount(["cpu"], lambda: None)
        loop = Loop(directory, count=count)
        profiled = [torch._C._autograd._profiler_enabled() for _ in range(3) for _ in loop.step()]
        loop.windows.finish()

        assert profiled == [False, False, True]
        assert count.result is not None and count.result.flops is not None


def test_a_runs_first_step_is_not_counted() -> None:
    """Shapes are worked out on fake tensors there."""
    count = StepCount(["cpu"], lambda: None)
    loop = Loop(None, Schedule(skip_first=0, wait=1), count=count)
    loop.run(4)

    assert count.result is not None
    assert (count.result.flops, "first" in str(count.result.reason)) == (None, True)


def test_a_counted_step_that_breaks_off_leaves_no_profiler() -> None:
    loop = Loop(None, count=StepCount(["cpu"], lambda: None))
    loop.run(2)
    steps = loop.step()
    next(steps)
    assert torch._C._autograd._profiler_enabled()

    loop.windows.finish()
    assert not torch._C._autograd._profiler_enabled()


def test_the_active_steps_are_recorded_whole_and_nothing_else(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(10)

    assert loop.windows.finish() is None
    (window,) = loop.windows.done
    assert loop.closed == {6: window}
    assert (window.first_step, window.num_steps, window.planned_steps, window.partial) == (4, 3, 3, False)
    # each holds the fetch of its batch and its own work
    assert steps_of(tmp_path, window) == {"ProfilerStep#4": 2, "ProfilerStep#5": 2, "ProfilerStep#6": 2}
    assert len(spans(document_of(tmp_path, window), "aten::mm")) == 6
    assert loop.windows.notes == []


def test_every_cycle_has_its_window(tmp_path: Path) -> None:
    loop = Loop(tmp_path, Schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=3))
    assert loop.windows.is_waiting
    loop.run(20)

    assert [window.first_step for window in loop.windows.done] == [3, 7, 11]
    assert list(loop.closed) == [4, 8, 12]
    assert len(files(tmp_path)) == 3
    assert not loop.windows.is_waiting


def test_only_audited_steps_are_watched_and_only_busy_ones_observed(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    modes, profilers, observed = [], [], []
    for _ in range(9):
        observed.append(loop.timer.fetch_observer is not None)
        for _ in loop.step():
            modes.append(torch._C._len_torch_function_stack())
            profilers.append(torch._C._autograd._profiler_enabled())
            assert sys.getprofile() is None

    actions = [SCHEDULE.action(step) for step in range(9)]
    assert modes == [int(action is Action.AUDIT) for action in actions]
    assert profilers == [action in (Action.WARMUP, Action.ACTIVE) for action in actions]
    # An audited step ends where the next one begins: its callbacks and its logging come after the batch.
    after_audit = [step > 0 and actions[step - 1] is Action.AUDIT for step in range(9)]
    busy = [action in (Action.AUDIT, Action.ACTIVE) for action in actions]
    assert observed == [one or other for one, other in zip(busy, after_audit, strict=True)]


def test_the_audit_finds_the_calls_of_its_steps_and_how_a_batch_is_loaded(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(10)

    syncs, probe = loop.windows.syncs, loop.windows.load_probe
    assert syncs is not None
    assert [(site.call, site.calls_per_step, site.file) for site in syncs.sites] == [(".item()", 1.0, __file__)]
    assert probe is not None
    assert (probe.collate_file, probe.collate_line) == (__file__, collate.__code__.co_firstlineno)


def test_a_step_that_fetches_its_batch_itself_begins_with_the_hook(tmp_path: Path) -> None:
    loop = Loop(tmp_path, Schedule(skip_first=0, wait=0, warmup=1, active=2))
    for step in range(3):
        loop.windows.step_started()
        with loop.timer.profile(FETCH):
            work()
        loop.windows.step_ended(step)

    assert steps_of(tmp_path, loop.windows.done[0]) == {"ProfilerStep#1": 1, "ProfilerStep#2": 1}


@pytest.mark.parametrize(("num_steps", "num_recorded"), [(0, None), (1, None), (3, None), (5, 1), (6, 2), (7, 3)])
def test_however_early_the_run_ends_its_complete_steps_are_kept(
    tmp_path: Path, num_steps: int, num_recorded: int | None
) -> None:
    loop = Loop(tmp_path)
    loop.run(num_steps)
    last = loop.windows.finish()

    done = loop.windows.done
    assert [window.num_steps for window in done] == ([] if num_recorded is None else [num_recorded])
    for window in done:
        assert window.partial == (num_recorded != 3)
        assert window.reason == ("the run ended inside the window" if window.partial else None)
        assert (last is window) == window.partial
        assert list(steps_of(tmp_path, window)) == [f"ProfilerStep#{4 + n}" for n in range(window.num_steps)]
    assert len(files(tmp_path)) == len(done)
    assert loop.timer.fetch_observer is None
    assert loop.windows.finish() is None


def test_a_window_without_a_complete_step_has_a_reason_and_no_file(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(4)

    window = loop.windows.finish("the run ended with KeyboardInterrupt")

    assert window == Window(4, 0, 3, partial=True, reason="the run ended with KeyboardInterrupt")
    assert files(tmp_path) == []


@pytest.mark.parametrize("step", range(8))
def test_a_step_that_is_broken_off_leaves_nothing_running(tmp_path: Path, step: int) -> None:
    loop = Loop(tmp_path)
    loop.run(step)
    next(loop.step())
    window = loop.windows.finish("the run ended with RuntimeError")

    assert not torch._C._autograd._profiler_enabled()
    assert torch._C._len_torch_function_stack() == 0
    assert sys.getprofile() is None
    if step in (5, 6):
        assert window is not None
        assert window.reason == "the run ended with RuntimeError"
        assert list(steps_of(tmp_path, window))[-1] == f"AbortedStep #{step}"


def test_the_profilers_own_time_belongs_to_no_step(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(8)

    assert [step for step, outside in loop.outside.items() if Part.CAPTURE in outside] == [3, 4, 5, 6, 7]
    assert loop.outside[4][Part.CAPTURE] > 0
    assert loop.outside[7][Part.CAPTURE] > loop.outside[5][Part.CAPTURE]


@pytest.mark.parametrize(("warmup", "accumulated", "first"), [(1, 1, 3), (2, 1, 4), (3, 2, 4), (2, 4, 3)])
def test_the_trial_takes_as_many_of_the_last_warmup_steps_as_it_may(
    tmp_path: Path, warmup: int, accumulated: int, first: int
) -> None:
    schedule = Schedule(skip_first=1, wait=2, warmup=warmup, active=1)
    loop = Loop(tmp_path, schedule, trial_steps=accumulated)
    profiled = []
    for _ in range(schedule.end):
        for step in loop.step():
            if torch._C._autograd._profiler_enabled():
                profiled.append(step)

    assert profiled == list(range(first, schedule.end))
    assert loop.windows.done[0].num_steps == 1


def test_a_profiler_that_runs_when_the_window_begins_keeps_its_data_and_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    loop = Loop(tmp_path, Schedule(skip_first=1, wait=2, warmup=2, active=3, repeat=2))
    loop.run(2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer:
        loop.run(10)

    note = "tracing is off: a torch.profiler that is running already would lose its data"
    assert loop.windows.notes == [note]
    assert [record.getMessage() for record in caplog.records] == [f"PerfWatch: {note}."]
    assert sum(event.name == "aten::mm" for event in outer.events() or ()) == 20
    assert (loop.windows.done, loop.windows.finish()) == ([], None)


def test_whoever_is_named_as_a_rival_turns_tracing_off(tmp_path: Path) -> None:
    loop = Loop(tmp_path, rival=lambda: "the other one")
    loop.run(10)

    assert loop.windows.notes == ["tracing is off: the other one would lose its data"]
    assert files(tmp_path) == []


def test_a_trace_that_can_not_be_written_turns_tracing_off_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    loop = Loop(directory, Schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=3))
    loop.run(4)
    shutil.rmtree(directory)
    loop.run(10)

    (window,) = loop.windows.done
    assert window.trace is None
    assert window.num_steps == 2
    (note,) = loop.windows.notes
    assert note.startswith("tracing is off: the trace could not be written: ")
    assert len(caplog.records) == 1


def test_a_window_without_room_closes_early_says_so_once_and_the_next_step_goes_unrecorded(tmp_path: Path) -> None:
    schedule = Schedule(skip_first=1, wait=2, warmup=1, active=5)
    loop = Loop(tmp_path, schedule, options=TraceOptions(max_trace_mb=0.001))
    loop.run(10)

    (window,) = loop.windows.done
    assert loop.closed == {4: window}
    assert (window.num_steps, window.planned_steps, window.partial) == (1, 5, True)
    assert loop.windows.notes == [window.reason]
    assert list(steps_of(tmp_path, window)) == ["ProfilerStep#4"]


def test_validation_within_a_window_is_recorded_outside_of_its_steps(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(5)
    loop.windows.validation_begins(3)
    work()
    loop.run(4)

    (window,) = loop.windows.done
    assert steps_of(tmp_path, window) == {"ProfilerStep#4": 2, "ProfilerStep#5": 2, "ProfilerStep#6": 2}
    assert len(spans(document_of(tmp_path, window), "aten::mm")) == 7


@pytest.mark.parametrize("num_batches", [100_000, float("inf")])
def test_a_validation_that_has_no_room_closes_the_window_before_it(tmp_path: Path, num_batches: float) -> None:
    loop = Loop(tmp_path)
    loop.run(5)
    closed = loop.windows.validation_begins(num_batches)
    assert not torch._C._autograd._profiler_enabled()
    loop.run(4)

    (window,) = loop.windows.done
    assert closed is window
    assert (window.num_steps, window.partial) == (1, True)
    assert f"{num_batches:g} batches of validation have no room" in str(window.reason)
    assert loop.windows.notes == [window.reason]


@pytest.mark.parametrize("step", [0, 2, 4, 8])
def test_validation_outside_of_a_window_changes_nothing(tmp_path: Path, step: int) -> None:
    loop = Loop(tmp_path)
    loop.run(step)
    loop.windows.validation_begins(float("inf") if step != 4 else 0)
    loop.run(9 - step)

    assert [window.num_steps for window in loop.windows.done] == [3]
    assert loop.windows.notes == []


DRIFT = "drift: the step takes twice its steady state"


def test_a_window_beside_the_schedule_tells_why_it_was_opened(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(9)
    plan = loop.windows.open(10, DRIFT)
    assert [loop.windows.has_demand(step) for step in (9, 13, 14)] == [True, True, False]
    loop.run(10)

    assert plan.on_demand == range(11, 14)
    assert [(window.first_step, window.opened_by) for window in loop.windows.done] == [(4, "schedule"), (11, DRIFT)]
    assert list(loop.closed) == [6, 13]


@pytest.mark.parametrize(("opened_by", "num_windows"), [(DRIFT, 1), ("requested with SIGUSR2", 2)])
def test_only_a_window_that_nobody_asked_for_has_to_be_affordable(
    tmp_path: Path, opened_by: str, num_windows: int
) -> None:
    loop = Loop(tmp_path, budget=Budget(1e-9))
    loop.run(9)
    loop.windows.open(10, opened_by)
    loop.run(10)

    assert len(loop.windows.done) == num_windows
    left_out = [f"{DRIFT} before step 10, and no window had room in max_overhead_share"]
    assert loop.windows.notes == ([] if num_windows == 2 else left_out)


def test_a_window_on_request_before_the_first_one_takes_nothing_from_it(tmp_path: Path) -> None:
    loop = Loop(tmp_path, Schedule(skip_first=1, wait=9, warmup=1, active=2), budget=Budget(1e-9))
    loop.windows.open(1, "requested with SIGUSR2")
    loop.run(14)

    assert [window.first_step for window in loop.windows.done] == [2, 11]


def test_where_recording_is_off_no_window_is_to_come(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.windows.switch_off("tracing is off: so it is")

    assert loop.windows.is_off
    assert loop.windows.off_reason == "tracing is off: so it is"
    loop.windows.open(2, DRIFT)
    assert not loop.windows.has_demand(2)
