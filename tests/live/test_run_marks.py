"""Windows, validations and checkpoints are placed in the run, on the clock of its intervals."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.live.run_marks import MOST_MARKS, RunMarks
from lightning_perfwatch.measurements import Mark
from tests.live.factories import BATCH, BATCH_MS, FETCH, RUN_EPOCH, VALIDATION, HostClock, end_step, play
from tests.reports.harness import Module, evidence, fit, loader, perfwatch

VALIDATION_MS = 79.5
SAVE = "save_checkpoint"

pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- the marks themselves


def test_without_a_first_step_there_is_no_time_and_no_mark() -> None:
    marks = RunMarks()
    marks.begin("validation", 0, 5)
    marks.end("validation", 7)

    assert marks.all() == ()
    assert marks.since_first_step_s(9) is None


def test_marks_count_from_the_first_step_and_come_in_order_of_time() -> None:
    marks = RunMarks()
    marks.begin("window", 0, 500_000_000)
    marks.first_step_begins(1_000_000_000)
    marks.first_step_begins(3_000_000_000)
    marks.begin("validation", 4, 3_000_000_000)
    marks.begin("checkpoint", 4, 3_500_000_000)
    marks.end("checkpoint", 3_750_000_000)
    marks.end("validation", 4_000_000_000)
    marks.end("window", 6_000_000_000)

    assert marks.all() == (
        Mark("window", 0, 0.0, 5.5),
        Mark("validation", 4, 2.0, 1.0),
        Mark("checkpoint", 4, 2.5, 0.25),
    )
    assert marks.since_first_step_s(1_500_000_000) == 0.5


def test_what_is_open_is_no_mark_yet_and_what_never_began_does_not_end() -> None:
    marks = RunMarks()
    marks.first_step_begins(0)
    marks.begin("window", 3, 10)
    marks.end("validation", 20)

    assert marks.all() == ()


def test_of_each_kind_the_newest_are_kept() -> None:
    marks = RunMarks()
    marks.first_step_begins(0)
    marks.begin("window", 0, 0)
    marks.end("window", 1)
    for step in range(MOST_MARKS + 10):
        marks.begin("checkpoint", step, step)
        marks.end("checkpoint", step + 1)

    kept = marks.all()
    assert [mark.kind for mark in kept].count("checkpoint") == MOST_MARKS
    assert [mark.step for mark in kept[:2]] == [0, 10]


# --- what the timer hears


def test_the_timer_places_validation_and_checkpoints_from_the_first_fetch_on(clock: HostClock) -> None:
    timer = PhaseTimer("PerfWatch")
    clock.pass_ms(1000)
    timer.start(RUN_EPOCH)
    clock.pass_ms(500)  # the loader's workers start
    play(timer, clock, BATCH)
    end_step(timer)
    play(timer, clock, [(SAVE, 10.0)])
    play(timer, clock, [*VALIDATION, (SAVE, 10.0)])
    play(timer, clock, [(FETCH, 1.0)])

    first_ms = sum(BATCH_MS.values())
    validation_ms = first_ms + 10.0
    assert timer.marks.all() == (
        Mark("checkpoint", 1, first_ms / 1e3, 0.01),
        Mark("validation", 1, validation_ms / 1e3, (VALIDATION_MS + 10.0) / 1e3),
        Mark("checkpoint", 1, (validation_ms + VALIDATION_MS) / 1e3, 0.01),
    )


def test_steps_are_numbered_also_when_their_times_are_taken_late(clock: HostClock) -> None:
    timer = PhaseTimer("PerfWatch")
    timer.start(RUN_EPOCH)
    for step in range(5):
        play(timer, clock, [(FETCH, 1.0), (SAVE, 1.0)])
        timer.end_step()
        if step == 2:
            timer.take(2)

    assert [mark.step for mark in timer.marks.all()] == [0, 1, 2, 3, 4]


# --- real fits


def of_kind(found: Evidence, kind: str) -> list[Mark]:
    return [mark for mark in found.marks or () if mark.kind == kind]


def test_a_real_run_has_its_window_validations_and_checkpoints_on_one_time_base() -> None:
    saves = ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=4, save_top_k=-1)
    watch = perfwatch()
    fit(
        watch,
        Module(validation_s=0.02),
        val=loader(2),
        others=[saves],
        enable_checkpointing=True,
        val_check_interval=5,
        num_sanity_val_steps=2,
        log_every_n_steps=2,
    )
    found = evidence()

    assert [mark.step for mark in of_kind(found, "window")] == [2]
    assert [mark.step for mark in of_kind(found, "validation")] == [5, 10]
    assert all(mark.duration_s >= 0.04 for mark in of_kind(found, "validation"))
    assert [mark.step for mark in of_kind(found, "checkpoint")] == [4, 8]
    assert found.counted is not None and found.wall_s is not None
    ends = [interval.end_s for interval in found.counted.intervals]
    assert all(one is not None and other is not None and one < other for one, other in pairwise(ends))
    by_last_step = {interval.last_step: interval.end_s for interval in found.counted.intervals}
    first, second = of_kind(found, "validation")
    assert (by_last_step[4] or 0.0) <= first.begin_s
    assert first.begin_s + first.duration_s < min(end for end in ends if end is not None and end > first.begin_s)
    assert ends[-1] is not None and ends[-1] <= second.begin_s
    assert second.begin_s + second.duration_s <= sum(found.wall_s.values())
    assert watch.report is not None
    assert watch.report.marks == found.marks


def test_a_resumed_run_counts_from_its_own_first_step() -> None:
    fit(perfwatch(), max_epochs=2).save_checkpoint("last.ckpt")
    fit(perfwatch(dir="resumed"), ckpt_path="last.ckpt", max_epochs=4)
    found = evidence("resumed")

    (window,) = of_kind(found, "window")
    assert window.step == 2
    assert found.counted is not None
    assert next(interval.end_s for interval in found.counted.intervals) is not None
    assert all((interval.end_s or 1e9) < 60 for interval in found.counted.intervals)


class BreaksInValidation(Callback):
    def on_validation_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if not trainer.sanity_checking:
            raise RuntimeError("no more")


def test_what_an_exception_cuts_short_ends_there() -> None:
    watch = perfwatch()
    with pytest.raises(RuntimeError, match="no more"):
        fit(watch, val=loader(2), others=[BreaksInValidation()], val_check_interval=4)
    found = evidence()

    (window,), (validation,) = of_kind(found, "window"), of_kind(found, "validation")
    assert (window.step, validation.step) == (2, 4)
    # the window was open when validation began
    assert window.begin_s < validation.begin_s < window.begin_s + window.duration_s
    assert watch.report is not None and len(watch.report.marks) == 2


def test_a_run_that_is_not_traced_has_no_window() -> None:
    fit(perfwatch(ranks=[7]), val=loader(1))

    assert [mark.kind for mark in evidence().marks or ()] == ["validation"]
