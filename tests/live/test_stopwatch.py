"""The sums by slot, interrupted and taken step by step."""

from __future__ import annotations

from lightning_perfwatch.live.stopwatch import Stopwatch
from tests.live.factories import HostClock


def test_steps_are_taken_in_their_order_and_only_once(clock: HostClock) -> None:
    watch = Stopwatch()
    watch.stack.append(watch.new_slot())
    for ms in (1.0, 2.0, 3.0):
        clock.pass_ms(ms)
        watch.end_step()

    assert watch.take(2).tolist() == [[1_000_000], [2_000_000]]
    assert watch.take().tolist() == [[3_000_000]]
    assert watch.take().shape == (0, 1)


def test_a_slot_that_comes_up_later_took_nothing_of_the_steps_before(clock: HostClock) -> None:
    watch = Stopwatch()
    watch.stack.append(watch.new_slot())
    clock.pass_ms(1.0)
    watch.end_step()
    watch.stack.append(watch.new_slot())
    clock.pass_ms(2.0)
    watch.end_step()

    assert watch.take().tolist() == [[1_000_000, 0], [0, 2_000_000]]


def test_what_happens_while_the_sums_are_set_aside_is_told_apart(clock: HostClock) -> None:
    watch = Stopwatch()
    watch.stack.append(watch.new_slot())
    clock.pass_ms(1.0)
    watch.lap()
    watch.interrupt()
    watch.interrupt()
    watch.new_slot()
    clock.pass_ms(5.0)

    interrupted = [watch.is_interrupted]
    assert watch.resume() == [5_000_000, 0]
    interrupted.append(watch.is_interrupted)
    assert interrupted == [True, False]
    clock.pass_ms(2.0)
    watch.end_step()
    assert watch.take().tolist() == [[3_000_000, 0]]
