"""What PerfWatch says that it costs, on a real fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightning.pytorch.profilers import SimpleProfiler

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.measurements import Overhead
from tests.reports.harness import fit, loader, perfwatch


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def overhead_of(watch: PerfWatch) -> Overhead:
    assert watch.report is not None
    assert watch.report.overhead is not None
    return watch.report.overhead


def test_every_part_of_the_cost_is_in_the_report() -> None:
    watch = perfwatch()
    fit(watch, train=loader(30))
    cost = overhead_of(watch)

    assert set(cost.hook_s) == {"on_train_batch_end"}  # a step's start is heard in steps that don't count only
    assert cost.hooks_s == pytest.approx(sum(cost.hook_s.values()))
    for part in (
        cost.listening_s,
        cost.spared_s,
        cost.stop_s,
        cost.export_s,
        cost.analysis_cpu_s,
        cost.analysis_wall_s,
    ):
        assert part is not None
        assert part > 0
    assert cost.recording_s is not None
    assert cost.stop_s is not None
    assert cost.export_s is not None
    assert cost.capture_s > cost.stop_s + cost.export_s


def test_without_a_window_recording_is_not_measured() -> None:
    watch = perfwatch(ranks=[7])
    fit(watch, train=loader(30))
    cost = overhead_of(watch)

    assert (cost.stop_s, cost.export_s, cost.recording_s) == (None, None, None)


def test_where_the_users_own_profiler_listens_nothing_is_spared() -> None:
    watch = perfwatch()
    fit(watch, train=loader(30), profiler=SimpleProfiler())
    cost = overhead_of(watch)

    assert (cost.listening_s, cost.spared_s) == (None, None)


def test_repeated_windows_that_a_short_run_can_not_pay_for_are_left_out_and_the_report_says_so() -> None:
    watch = perfwatch(schedule=Schedule(skip_first=0, wait=1, warmup=1, active=3, repeat=4), max_overhead_share=1e-6)
    fit(watch, train=loader(30))

    assert watch.report is not None
    assert len(watch.report.windows) == 1
    assert overhead_of(watch).num_windows_left_out == 3
    assert any("3 further windows were left out" in note for note in watch.report.notes)
