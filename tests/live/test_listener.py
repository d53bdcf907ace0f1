"""The timer of phases as the listener that stands in for the Trainer's profiler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.clock import DeviceMarks
from lightning_perfwatch.live.listener import Listener
from lightning_perfwatch.live.phases import PhaseTimer
from lightning_perfwatch.measurements import PHASES
from tests.live.factories import (
    BACKWARD,
    BATCH,
    BATCH_MS,
    FETCH,
    RUN_EPOCH,
    TO_DEVICE,
    TRAINING_STEP,
    VALIDATION,
    HostClock,
    PassThroughProfiler,
    RecordingProfiler,
    Stream,
    end_step,
    hooks_ms,
    listener_in_step,
    outside_ms,
    phases_ms,
    play,
    timer_in_step,
)

OWN = "[Callback]PerfWatch.on_train_batch_end"


def test_lightnings_silent_default_is_not_told_of_anything(clock: HostClock) -> None:
    silent = PassThroughProfiler()
    timer = listener_in_step(silent)
    play(timer, clock, [*BATCH, *VALIDATION])

    assert silent.calls == []


def test_the_users_own_profiler_hears_every_action_in_its_order(clock: HostClock) -> None:
    behind, alone = RecordingProfiler(), RecordingProfiler()
    timer = listener_in_step(behind)
    heard_before = len(behind.calls)

    play(timer, clock, [*BATCH, *VALIDATION])
    play(alone, clock, [*BATCH, *VALIDATION])

    assert behind.calls[heard_before:] == alone.calls
    assert phases_ms(end_step(timer.timer)) == BATCH_MS


def test_the_users_own_profiler_hears_the_end_of_an_action_that_failed(clock: HostClock) -> None:
    behind = RecordingProfiler()
    timer = listener_in_step(behind)
    with pytest.raises(RuntimeError), timer.profile(TRAINING_STEP):
        raise RuntimeError

    assert behind.calls[-2:] == [("start", TRAINING_STEP), ("stop", TRAINING_STEP)]


def test_whatever_else_is_asked_of_it_the_users_profiler_answers() -> None:
    timer = Listener(RecordingProfiler(), PhaseTimer("PerfWatch"))

    assert timer.describes_itself == "the user's"
    with pytest.raises(AttributeError, match="no_such_name"):
        timer.no_such_name  # noqa: B018 - asking is the test
    with pytest.raises(AttributeError):  # as pickle and copy ask for it, before __init__
        Listener.__new__(Listener).describes_itself  # noqa: B018


def test_removing_it_gives_the_trainer_back_the_profiler_it_had() -> None:
    own = RecordingProfiler()
    timer = Listener(own, PhaseTimer("PerfWatch"))
    trainer = SimpleNamespace(profiler=timer)

    timer.remove_from(trainer)
    timer.remove_from(trainer)

    assert trainer.profiler is own


def test_of_two_listeners_either_can_go_first_and_the_other_listens_on(clock: HostClock) -> None:
    for first_goes in (True, False):
        own = RecordingProfiler()
        inner = listener_in_step(own)
        outer = listener_in_step(inner)
        trainer = SimpleNamespace(profiler=outer)
        play(outer, clock, BATCH)
        assert phases_ms(end_step(inner.timer)) == phases_ms(end_step(outer.timer)) == BATCH_MS
        gone, stays = (inner, outer) if first_goes else (outer, inner)
        own.calls.clear()

        gone.remove_from(trainer)
        play(trainer.profiler, clock, BATCH)

        assert trainer.profiler is stays
        assert stays.inner is own
        assert phases_ms(end_step(stays.timer)) == BATCH_MS
        assert end_step(gone.timer).hooks_ns == {}
        assert own.calls[0] == ("start", FETCH)
        assert own.calls.count(("start", FETCH)) == 1


def test_a_listener_before_the_silent_default_forwards_nothing_after_the_other_one_has_gone(clock: HostClock) -> None:
    silent = PassThroughProfiler()
    inner = listener_in_step(silent)
    outer = listener_in_step(inner)

    inner.remove_from(SimpleNamespace(profiler=outer))
    play(outer, clock, BATCH)

    assert silent.calls == []


@pytest.mark.parametrize("profiler", [PassThroughProfiler, RecordingProfiler])
def test_a_fetch_that_finds_the_loader_exhausted_is_a_fetch_that_ended(clock: HostClock, profiler: Any) -> None:
    timer = listener_in_step(profiler())
    with pytest.raises(StopIteration), timer.profile(FETCH):
        clock.pass_ms(3.0)
        raise StopIteration
    clock.pass_ms(2.0)

    assert phases_ms(end_step(timer.timer)) == {"data_wait": 3.0, "other": 2.0}


def test_an_observer_hears_of_training_fetches_only_and_also_of_those_that_fail(clock: HostClock) -> None:
    heard: list[str] = []
    timer = timer_in_step()
    timer.fetch_observer = SimpleNamespace(
        fetch_begins=lambda: heard.append("begin"), fetch_ends=lambda: heard.append("end")
    )
    play(timer, clock, [*VALIDATION, (TRAINING_STEP, 1.0)])
    assert heard == []

    with pytest.raises(StopIteration), timer.profile(FETCH):
        heard.append("fetch")
        raise StopIteration

    assert heard == ["begin", "fetch", "end"]


def test_a_step_that_began_and_was_broken_off_still_adds_up(clock: HostClock) -> None:
    timer = timer_in_step()
    with pytest.raises(RuntimeError), timer.profile("run_training_batch"), timer.profile(TRAINING_STEP):
        clock.pass_ms(5.0)
        raise RuntimeError
    clock.pass_ms(1.0)

    assert phases_ms(end_step(timer)) == {"forward": 5.0, "other": 1.0}


def test_a_listener_that_comes_in_the_middle_of_an_action_takes_its_end_for_what_it_is(clock: HostClock) -> None:
    timer = PhaseTimer("PerfWatch")
    clock.pass_ms(2.0)
    timer.stop("[Callback]PerfWatch.on_train_start")
    play(timer, clock, [1.0, ("[Callback]Slow.on_train_start", 3.0)])
    timer.start(RUN_EPOCH)
    play(timer, clock, [4.0, *BATCH])

    parts = end_step(timer)

    assert phases_ms(parts) == {**BATCH_MS, "callbacks": 67.0}
    assert outside_ms(parts) == {Part.EPOCH_START: 7.0}


def test_names_never_heard_of_belong_to_the_loop_or_to_their_owner(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [("some new action", 3.0), ("", 1.0), ("[Callback]EMA.on_something_new", 5.0)])

    parts = end_step(timer)

    assert phases_ms(parts) == {"callbacks": 5.0, "other": 4.0}
    assert hooks_ms(timer, parts) == {("EMA", "on_something_new"): 5.0}


def test_perfwatchs_own_hooks_are_known_as_such_and_a_namesake_is_not(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [(OWN, 1.0), ("[Callback]PerfWatchToo.on_train_batch_end", 2.0)])
    hooks = end_step(timer).hooks_ns

    assert {slot: ns for slot, ns in hooks.items() if slot in timer.own_slots} == {min(hooks): 1_000_000}
    assert timer.meanings[min(hooks)] == Meaning(Part.CALLBACKS, "PerfWatch", "on_train_batch_end")


def test_phases_leave_their_marks_in_the_devices_stream_and_validation_leaves_none(clock: HostClock) -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    timer = timer_in_step(device=marks)
    marks.close_step(None, PHASES.index("callbacks"))

    def forward() -> None:
        with timer.profile(TRAINING_STEP):
            stream.launch(4.0)
            with timer.profile("[LightningModule]Model.on_before_backward"):
                pass
            stream.launch(8.0)
            with timer.profile("[LightningModule]Model.on_after_backward"):
                pass
            with timer.profile("optimizer_step"):
                stream.launch(2.0)

    with timer.profile(FETCH):
        stream.host_ms += 1.0
    with timer.profile(TO_DEVICE):
        stream.launch(0.5)
    forward()
    marks.close_step(0, PHASES.index("callbacks"))
    made = stream.events_made
    play(timer, clock, VALIDATION)
    assert stream.events_made == made

    stream.host_ms = 1000.0
    ((row, seconds),) = marks.read()
    assert row == 0
    assert {name: round(s * 1e3, 6) for name, s in zip(PHASES, seconds, strict=True) if s} == {
        "data_wait": 1.0,
        "transfer": 0.5,
        "forward": 4.0,
        "backward": 8.0,
        "optimizer": 2.0,
    }


def test_the_hooks_within_an_automatic_backward_pass_do_not_end_it_on_the_device(clock: HostClock) -> None:
    stream = Stream()
    marks = DeviceMarks(stream.make_event)
    timer = timer_in_step(device=marks)
    marks.close_step(None, PHASES.index("callbacks"))
    with timer.profile(BACKWARD):
        with timer.profile("[LightningModule]Model.on_before_backward"):
            stream.launch(1.0)
        stream.launch(8.0)
        with timer.profile("[LightningModule]Model.on_after_backward"):
            stream.launch(1.0)
        stream.launch(2.0)
    marks.close_step(0, PHASES.index("callbacks"))
    stream.host_ms = 1000.0

    ((_, seconds),) = marks.read()

    assert seconds[PHASES.index("backward")] * 1e3 == pytest.approx(12.0)
