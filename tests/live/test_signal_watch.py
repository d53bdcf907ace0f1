from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from lightning_perfwatch.live.signal_watch import SignalWatch


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    former = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, former)


def test_the_signal_is_noted_and_given_back() -> None:
    came: list[str] = []
    former = signal.getsignal(signal.SIGUSR2)
    watch = SignalWatch("SIGUSR2", lambda: came.append("ours"))
    os.kill(os.getpid(), signal.SIGUSR2)

    assert (came, watch.reason) == (["ours"], None)
    watch.stop()
    assert signal.getsignal(signal.SIGUSR2) is former


def test_whoever_had_the_signal_still_gets_it() -> None:
    came: list[str] = []
    signal.signal(signal.SIGUSR2, lambda number, frame: came.append("theirs"))
    watch = SignalWatch("SIGUSR2", lambda: came.append("ours"))
    os.kill(os.getpid(), signal.SIGUSR2)
    watch.stop()
    os.kill(os.getpid(), signal.SIGUSR2)

    assert came == ["ours", "theirs", "theirs"]


def test_a_handler_that_was_set_later_stays() -> None:
    watch = SignalWatch("SIGUSR2", lambda: None)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    watch.stop()

    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_outside_of_the_main_thread_nothing_is_touched_and_the_reason_is_told() -> None:
    former = signal.getsignal(signal.SIGUSR2)
    made: list[SignalWatch] = []
    thread = threading.Thread(target=lambda: made.append(SignalWatch("SIGUSR2", lambda: None)))
    thread.start()
    thread.join()

    assert made[0].reason == "the fit does not run in the main thread"
    assert signal.getsignal(signal.SIGUSR2) is former
    made[0].stop()
    assert signal.getsignal(signal.SIGUSR2) is former
