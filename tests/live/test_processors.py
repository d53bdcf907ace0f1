from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from lightning_perfwatch.live import processors
from lightning_perfwatch.live.processors import ProcessorWatch
from lightning_perfwatch.processes import num_usable_cpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps these counters")


def compute(seconds: float) -> None:
    """Use the CPU on this thread for so long."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_without_a_step_that_counts_nothing_is_known() -> None:
    watch = ProcessorWatch(1)
    assert watch.use() is None
    watch.edge(5, counts=False)
    assert watch.use() is None


def test_adds_up_the_cpu_time_of_the_steps_that_count() -> None:
    watch = ProcessorWatch(1)
    compute(0.05)
    watch.edge(5, counts=False)
    compute(0.1)
    watch.edge(3, counts=True)
    use = watch.use()
    assert use is not None
    assert use.num_steps == 3
    assert 0.09 <= use.running_s < 0.15
    assert use.process_s >= 0.09
    assert use.running_s + use.delayed_s <= 1.05 * use.wall_s
    assert (use.num_threads, use.num_cpus, use.num_processes) == (torch.get_num_threads(), num_usable_cpus(), 1)


def test_only_the_thread_that_trains_is_followed() -> None:
    watch = ProcessorWatch(1)
    other = threading.Thread(target=compute, args=(0.1,))
    other.start()
    other.join()
    watch.edge(1, counts=True)
    use = watch.use()
    assert use is not None
    assert use.running_s < 0.05
    assert use.process_s >= 0.09


def test_a_threads_turn_that_others_have_is_delay() -> None:
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    other = multiprocessing.get_context("fork").Process(target=compute, args=(0.3,))
    try:
        other.start()
        watch = ProcessorWatch(1)
        compute(0.2)
        watch.edge(1, counts=True)
    finally:
        os.sched_setaffinity(0, affinity)
        other.join()
    use = watch.use()
    assert use is not None
    assert use.delayed_s > 0.05
    assert use.num_workers == 1


def test_processes_that_others_started_are_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def write(busy_ticks: int) -> None:
        lines = [f"cpu{number} {busy_ticks} 0 0 9999 50 0 0 10 77 0" for number in range(512)]
        (tmp_path / "stat").write_text("\n".join(["cpu  0 0 0 0 0 0 0 0 0 0", *lines, "intr 1 2 3"]))

    (tmp_path / "thread-self").mkdir()
    (tmp_path / "thread-self/schedstat").write_text("1000000000 500000000 7\n")
    monkeypatch.setattr(processors, "_PROC", tmp_path)
    write(0)
    watch = ProcessorWatch(1)
    write(2 * processors._TICKS_PER_S)
    (tmp_path / "thread-self/schedstat").write_text("1500000000 700000000 9\n")
    watch.edge(4, counts=True)
    use = watch.use()
    assert use is not None and use.others_s is not None
    assert use.running_s == pytest.approx(0.5)
    assert use.delayed_s == pytest.approx(0.2)
    assert use.others_s == pytest.approx(2.0 * len(os.sched_getaffinity(0)), abs=0.5)


def test_a_kernel_that_does_not_tell_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "_PROC", tmp_path)
    with pytest.raises(OSError, match="schedstat"):
        ProcessorWatch(1)


def test_a_kernel_that_keeps_no_counters_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "thread-self").mkdir()
    (tmp_path / "thread-self/schedstat").write_text("0 0 7\n")
    monkeypatch.setattr(processors, "_PROC", tmp_path)
    watch = ProcessorWatch(1)
    watch.edge(4, counts=True)
    assert watch.use() is None
