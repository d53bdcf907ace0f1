"""The timer of phases: which step and part gets which time."""

from __future__ import annotations

import pytest

from lightning_perfwatch.live.actions import Part
from lightning_perfwatch.live.phases import PhaseTimer
from tests.live.factories import (
    BACKWARD,
    BATCH,
    BATCH_END,
    BATCH_MS,
    CALLBACK_END,
    FETCH,
    OPTIMIZER_STEP,
    RUN_EPOCH,
    TRAINING_STEP,
    VALIDATION,
    Ended,
    HostClock,
    Script,
    end_step,
    hooks_ms,
    outside_ms,
    phases_ms,
    play,
    timer_in_step,
)

CHECKPOINT = "[Callback]ModelCheckpoint{}.on_train_batch_end"
OWN = "[Callback]PerfWatch.on_train_batch_end"
VAL_START = "[LightningModule]Model.on_validation_model_eval"
VAL_STEP = "[Strategy]SingleDeviceStrategy.validation_step"
VAL_END = "[Callback]ModelCheckpoint{}.on_validation_end"


def total_ns(parts: Ended) -> int:
    return sum(parts.phases_ns) + sum(parts.outside_ns.values())


def test_each_phase_gets_its_own_time_without_what_is_nested_in_it(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, BATCH)

    parts = end_step(timer)

    assert phases_ms(parts) == BATCH_MS
    assert parts.outside_ns == {}
    assert hooks_ms(timer, parts) == {("Slow", "on_train_batch_end"): 64.0}


def test_steps_are_independent_of_each_other(clock: HostClock) -> None:
    timer = timer_in_step()
    for _ in range(3):
        play(timer, clock, BATCH)
        assert phases_ms(end_step(timer)) == BATCH_MS
    play(timer, clock, [(FETCH, 1.0), (TRAINING_STEP, 2.0)])

    assert phases_ms(end_step(timer)) == {"data_wait": 1.0, "forward": 2.0}


def test_everything_together_adds_up_to_the_wall_clock(clock: HostClock) -> None:
    started_ns = clock.now_ns
    timer = PhaseTimer("PerfWatch", ["ModelCheckpoint{}"])
    sum_ns = 0
    for _ in range(2):
        play(timer, clock, [7.0, ("[Callback]Slow.on_train_epoch_start", 2.0), 1.0])
        timer.start(RUN_EPOCH)
        for _ in range(2):
            play(timer, clock, [0.1, *BATCH, 0.2, (CHECKPOINT, 2.0, ("save_checkpoint", 9.0)), (OWN, 0.01)])
            with timer.capture:
                clock.pass_ms(11.0)
            with timer.edge:
                clock.pass_ms(13.0)
            sum_ns += total_ns(end_step(timer))
            play(timer, clock, [(BATCH_END, 0.3), 0.7, *VALIDATION, (VAL_END, 2.0, ("save_checkpoint", 50.0)), 0.1])
        timer.stop(RUN_EPOCH)
        play(timer, clock, [1.0, ("[LightningModule]Model.on_train_epoch_end", 2.0), 1.0])
    sum_ns += total_ns(end_step(timer))

    assert sum_ns == clock.now_ns - started_ns


def test_validation_is_outside_of_the_step_with_its_setup_its_transfers_and_its_hooks(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [*VALIDATION, *BATCH])

    parts = end_step(timer)

    assert phases_ms(parts) == BATCH_MS
    assert outside_ms(parts) == {Part.VALIDATION: 79.5}
    assert hooks_ms(timer, parts) == {("Slow", "on_train_batch_end"): 64.0}


def test_training_goes_on_as_soon_as_its_loop_asks_for_a_batch(clock: HostClock) -> None:
    timer = timer_in_step()
    training = [timer.is_training]
    for script in ([(VAL_START, 1.0), (VAL_STEP, 1.0)], [2.0, (FETCH, 4.0)]):
        play(timer, clock, script)
        training.append(timer.is_training)

    assert training == [True, False, True]
    assert outside_ms(end_step(timer)) == {Part.VALIDATION: 4.0}


def test_a_checkpoint_within_validation_is_a_checkpoint(clock: HostClock) -> None:
    timer = timer_in_step()
    play(
        timer,
        clock,
        [*VALIDATION, (VAL_END, 1.0, ("save_checkpoint", 100.0, ("[Callback]EMA.on_save_checkpoint", 5.0)))],
    )
    play(timer, clock, BATCH)

    parts = end_step(timer)

    assert outside_ms(parts) == {Part.VALIDATION: 79.5, Part.CHECKPOINT: 106.0}
    assert phases_ms(parts) == BATCH_MS


def test_validation_at_the_end_of_an_epoch_ends_with_it(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [*VALIDATION])
    timer.stop(RUN_EPOCH)
    play(timer, clock, [("[LightningModule]Model.on_train_epoch_end", 6.0)])

    assert outside_ms(end_step(timer)) == {Part.VALIDATION: 79.5, Part.EPOCH_START: 6.0}


def test_a_checkpoint_beside_the_step_is_not_part_of_it(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [*BATCH, (CHECKPOINT, 2.0, ("save_checkpoint", 100.0))])

    parts = end_step(timer)

    assert phases_ms(parts) == BATCH_MS
    assert outside_ms(parts) == {Part.CHECKPOINT: 102.0}


@pytest.mark.parametrize("context", ["capture", "edge"])
def test_the_profilers_time_and_the_wait_at_an_edge_are_outside_of_steps(clock: HostClock, context: str) -> None:
    timer = timer_in_step()
    timer.start(CALLBACK_END)
    clock.pass_ms(1.0)
    with getattr(timer, context):
        clock.pass_ms(30.0)
    clock.pass_ms(1.0)
    timer.stop(CALLBACK_END)

    parts = end_step(timer)

    assert phases_ms(parts) == {"callbacks": 2.0}
    assert outside_ms(parts) == {Part[context.upper()]: 30.0}


def test_after_the_modules_last_hook_comes_lightnings_logging_until_the_next_fetch(clock: HostClock) -> None:
    timer = timer_in_step()
    play(timer, clock, [(BATCH_END, 1.0), 5.0, (FETCH, 2.0), 4.0])

    parts = end_step(timer)

    assert phases_ms(parts) == {"callbacks": 6.0, "data_wait": 2.0, "other": 4.0}
    assert hooks_ms(timer, parts) == {
        ("Model (LightningModule)", "on_train_batch_end"): 1.0,
        ("Lightning's logging", "after the batch"): 5.0,
    }


def test_manual_optimisation_has_a_backward_pass_between_its_hooks(clock: HostClock) -> None:
    timer = timer_in_step()
    backward: Script = [
        ("[Callback]Slow.on_before_backward", 0.5),
        ("[LightningModule]Model.on_before_backward", 0.25),
        32.0,
        ("[Callback]Slow.on_after_backward", 0.125),
        ("[LightningModule]Model.on_after_backward", 0.125),
    ]
    play(
        timer,
        clock,
        [(TRAINING_STEP, 4.0, *backward, 1.0, ("optimizer_step", 8.0), *backward, 2.0, ("optimizer_step", 8.0))],
    )

    assert phases_ms(end_step(timer)) == {"forward": 7.0, "backward": 64.0, "optimizer": 16.0, "callbacks": 2.0}


def test_automatic_optimisation_does_not_count_its_backward_pass_twice(clock: HostClock) -> None:
    timer = timer_in_step()
    hooks = ("[LightningModule]Model.on_before_backward", 0.5), 32.0, ("[LightningModule]Model.on_after_backward", 0.5)
    play(timer, clock, [(OPTIMIZER_STEP, (TRAINING_STEP, 4.0), (BACKWARD, 1.0, *hooks, 1.0), 8.0)])

    assert phases_ms(end_step(timer)) == {"forward": 4.0, "backward": 34.0, "optimizer": 8.0, "callbacks": 1.0}


def test_the_start_of_an_epoch_ends_with_its_first_fetch(clock: HostClock) -> None:
    timer = timer_in_step()
    for iterator_ms, wait_ms in ((300.0, 80.0), (20.0, 5.0)):
        timer.stop(RUN_EPOCH)
        clock.pass_ms(9.0)
        timer.start(RUN_EPOCH)
        clock.pass_ms(iterator_ms)
        play(timer, clock, [(FETCH, wait_ms), (TRAINING_STEP, 1.0), (FETCH, 50.0), 1.0])
        parts = end_step(timer)
        assert outside_ms(parts)[Part.EPOCH_START] >= iterator_ms
        assert phases_ms(parts) == {"data_wait": wait_ms + 50.0, "forward": 1.0, "other": 1.0}

    assert list(timer.epoch_starts_ns)[1:] == [(300_000_000, 80_000_000), (20_000_000, 5_000_000)]
