"""Code of the user's that gets in PerfWatch's way: the run goes on as without it, and as little as possible is lost."""

from __future__ import annotations

import cProfile
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.report import Report
from lightning_perfwatch.run_directory import RunDirectory
from tests.reports.harness import Module, fit, loader, perfwatch, profiler_is_running, run_script, said_by_perfwatch


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_profiler_that_starts_inside_of_a_step_gets_its_events_and_the_process_survives(tmp_path: Path) -> None:
    done = run_script(
        textwrap.dedent("""
        import torch
        from tests.reports.harness import Module, fit, loader, perfwatch

        counts = []

        class Profiled(Module):
            def training_step(self, batch, batch_idx):
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as user:
                    loss = super().training_step(batch, batch_idx)
                counts.append(len(user.events()))
                return loss

        watch = perfwatch()
        fit(watch, Profiled(), loader(12))
        assert len(counts) == 12 and min(counts) > 0, counts
        assert watch.report.counted.num_batches == 12
        assert any("another profiler was started in a step" in note for note in watch.report.notes), watch.report.notes
        print("survived")
        """),
        tmp_path,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["survived"]), done.stderr[-2000:]


def test_an_error_that_cannot_be_printed_stays_inside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise UnprintableError

    monkeypatch.setattr("lightning_perfwatch.live.steps.StepLog.add", fail)
    watch = perfwatch()
    model = Module()
    fit(watch, model, loader(6))
    assert model.trainer.global_step == 6
    assert len(said_by_perfwatch(caplog)) == 1
    assert not profiler_is_running()


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


def test_a_mode_that_the_user_enters_in_a_step_outlives_the_audit() -> None:
    stacks: list[int] = []

    class Entering(Module):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            self.mode = Counting()
            self.mode.__enter__()  # type: ignore[no-untyped-call]

        def on_train_batch_end(self, *_: Any) -> None:
            stacks.append(sum(other is self.mode for other in _get_current_function_mode_stack()))  # type: ignore[no-untyped-call]
            self.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    fit(perfwatch(), Entering(), loader(6))
    assert stacks == [1] * 6
    assert _get_current_function_mode_stack() == []  # type: ignore[no-untyped-call]


def test_a_profile_function_that_the_user_sets_while_loading_stays() -> None:
    profile = cProfile.Profile()

    class Starting(Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
            if batch_idx == 0:
                profile.enable()

    try:
        fit(perfwatch(), Module(), loader(6), others=[Starting()])
        assert sys.getprofile() is not None
    finally:
        profile.disable()


def test_the_trainer_can_be_pickled_at_any_time() -> None:
    kinds: list[str] = []

    class Copying(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            kinds.append(type(pickle.loads(pickle.dumps(trainer.profiler))).__name__)

    fit(perfwatch(), Module(), loader(8), others=[Copying()])
    assert kinds == ["PassThroughProfiler"] * 8


@pytest.mark.parametrize("stdout", [None, "closed"])
def test_a_run_without_a_terminal_is_measured_to_its_end(monkeypatch: pytest.MonkeyPatch, stdout: str | None) -> None:
    stream = None
    if stdout == "closed":
        stream = Path("nowhere.txt").open("w")  # noqa: SIM115 - it is closed at once
        stream.close()
    watch = perfwatch(quiet=False)
    monkeypatch.setattr(sys, "stdout", stream)
    fit(watch, Module(), loader(8), log_every_n_steps=1)
    assert watch.report is not None
    assert watch.report.counted is not None
    assert watch.report.counted.num_batches == 8


def test_a_fit_inside_of_a_fit_with_the_same_callback_leaves_the_outer_one_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = perfwatch()

    class Nesting(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if batch_idx == 1:
                fit(watch, Module(), loader(3))

    fit(watch, Module(), loader(8), others=[Nesting()])
    assert watch.report is not None
    assert watch.report.counted is not None
    assert watch.report.counted.num_batches == 8
    assert not profiler_is_running()
    assert sum("one fit at a time" in line for line in said_by_perfwatch(caplog)) == 1


def test_an_older_report_in_the_directory_is_not_taken_for_the_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    RunDirectory(tmp_path / "run").write_report(Report(notes=("of yesterday",)))
    monkeypatch.setattr(sys, "executable", "/bin/true")
    watch = perfwatch(dir=tmp_path / "run")
    fit(watch, Module(), loader(6))
    assert watch.report is not None
    assert watch.report.notes != ("of yesterday",)
    assert watch.report.counted is not None


def test_no_rules_means_no_findings() -> None:
    watch = PerfWatch(Schedule(skip_first=0, wait=1, warmup=1, active=2), rules=[], quiet=True, dir="run")
    fit(watch, Module(), loader(12, load_s=0.01))
    assert watch.report is not None
    assert watch.report.findings == ()
    assert set(watch.report.skipped.values()) == {"the settings leave it out"}


def test_the_start_of_workers_counts_neither_for_the_rate_nor_as_waiting_for_data() -> None:
    watch = perfwatch(schedule=Schedule(skip_first=1, wait=60, warmup=1, active=1))
    fit(watch, Module(forward_s=0.005), loader(6, num_workers=1, worker_init_fn=_slow_start), max_epochs=4)
    assert watch.report is not None
    rate, step = watch.report.throughput.samples_per_s, watch.report.throughput.step_time_s
    assert rate is not None
    assert step is not None
    assert rate > 0.5 * 2 / step.mean  # two samples a step; with the starts of 0.3 s it would be a fifth
    assert watch.report.wall_s is not None
    assert watch.report.wall_s["epoch_start"] > 0.8


def _slow_start(_: int) -> None:
    import time

    time.sleep(0.3)
