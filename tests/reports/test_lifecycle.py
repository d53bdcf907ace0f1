"""Public reports on the profiler's life: other profilers, broken-off runs, copies, threads and odd fits."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.tuner.tuning import Tuner

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.reporters import terminal
from tests.reports.harness import (
    NEVER,
    SHORT,
    Module,
    evidence,
    fit,
    loader,
    perfwatch,
    phase_ms,
    profiler_is_running,
    run_script,
    said_by_perfwatch,
    steps_of,
    trace_files,
    trainer,
)

TWO_PROFILERS = """
import json, logging, torch
from lightning.pytorch.profilers import PyTorchProfiler
from lightning_perfwatch import Schedule
from tests.reports.harness import fit, loader, perfwatch, profiler_is_running, steps_of, trace_files

class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

def outcome(watch, directory):
    return {
        "said": list(said),
        "samples_per_s": watch.report.throughput.samples_per_s,
        "steps": [list(steps_of(path)) for path in trace_files(directory)],
        "still_running": profiler_is_running(),
    }

said, outcomes = [], {}
handler = Said(level=logging.WARNING)
logging.getLogger("lightning_perfwatch").addHandler(handler)

schedule = Schedule(skip_first=0, wait=3, warmup=1, active=3)
for name, theirs in (("lightning", PyTorchProfiler(dirpath="theirs", filename="x")), ("short", "pytorch")):
    said.clear()
    watch = perfwatch(dir=name, schedule=schedule)
    used = fit(watch, train=loader(60), profiler=theirs, default_root_dir="theirs")
    outcomes[name] = {**outcome(watch, name), "theirs": len(used.profiler.function_events or [])}

said.clear()
watch = perfwatch(dir="outer")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer:
    fit(watch)
outcomes["outer"] = {**outcome(watch, "outer"), "theirs": len(outer.events())}

said.clear()
first, second = perfwatch(dir="first"), perfwatch(dir="second")
fit(first, others=[second])
outcomes["first"], outcomes["second"] = outcome(first, "first"), outcome(second, "second")
print("OUTCOMES" + json.dumps(outcomes))
"""


def outcomes_of(source: str, directory: Path) -> dict[str, Any]:
    run = run_script(source, directory)
    assert run.returncode == 0, run.stderr
    outcomes: dict[str, Any] = json.loads(run.stdout.partition("OUTCOMES")[2])
    return outcomes


@pytest.fixture(scope="module")
def two_profilers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcomes_of(TWO_PROFILERS, tmp_path_factory.mktemp("two_profilers"))


@pytest.mark.parametrize("other", ["lightning", "short", "outer"])
def test_a_profiler_that_runs_already_keeps_its_data(two_profilers: dict[str, Any], other: str) -> None:
    """PL#20779, PT#152617, PT#98124 (1): one warning, no tracing, throughput all the same; no crash, no lost data."""
    outcome = two_profilers[other]
    assert outcome["theirs"] > 0
    assert outcome["steps"] == []
    assert outcome["samples_per_s"] > 0
    assert len(outcome["said"]) == 1 and "tracing is off" in outcome["said"][0]
    assert not outcome["still_running"]


def test_of_two_perfwatches_the_first_one_records(two_profilers: dict[str, Any]) -> None:
    """PL#20779 (1): the second one measures without a trace and says so."""
    first, second = two_profilers["first"], two_profilers["second"]
    assert (first["steps"], second["steps"]) == ([[2, 3, 4]], [])
    assert first["samples_per_s"] > 0 and second["samples_per_s"] > 0
    assert len(second["said"]) == 1 and "another PerfWatch" in second["said"][0]
    assert not second["still_running"]


class ProfilesLater(Callback):
    """A callback of the user's with a profiler of its own, which comes to life after PerfWatch has begun."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=2, warmup=1, active=2, repeat=1),
        )
        self.profiler.start()

    def on_train_batch_end(self, *args: Any) -> None:
        self.profiler.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.profiler.stop()


def test_a_callback_whose_profiler_comes_later_keeps_its_data(caplog: pytest.LogCaptureFixture) -> None:
    """PL#20779 (1): its window would begin inside of PerfWatch's and end the training with a RuntimeError."""
    theirs = ProfilesLater()
    used = fit(perfwatch(), others=[theirs])

    assert used.global_step == 10
    recorded: Any = theirs.profiler
    assert len(recorded.events()) > 0
    (warning,) = said_by_perfwatch(caplog)
    assert "ProfilesLater" in warning and "tracing is off" in warning
    assert not trace_files()


BROKEN_OFF = """
import json, os, signal, sys
from tests.reports.harness import Module, fit, perfwatch, profiler_is_running, steps_of, trace_files

class Breaks(Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
    def training_step(self, batch, batch_idx):
        if batch_idx == 3:
            self.how()
        return super().training_step(batch, batch_idx)

def fail():
    raise RuntimeError("the user's own")
def interrupt():
    raise KeyboardInterrupt
def terminate():
    os.kill(os.getpid(), signal.SIGTERM)

outcomes = {}
for name, how in (("error", fail), ("ctrl_c", interrupt), ("sigterm", terminate)):
    watch, raised = perfwatch(dir=name), None
    try:
        fit(watch, Breaks(how))
    except BaseException as error:
        raised = f"{type(error).__name__}: {error}"
    outcomes[name] = {
        "raised": raised,
        "still_running": profiler_is_running(),
        "steps": [list(steps_of(path)) for path in trace_files(name)],
        "partial": [window.partial for window in watch.report.windows],
        "reasons": [window.reason for window in watch.report.windows],
        "samples": watch.report.counted.samples,
        "hooks": sys.getprofile() is not None,
    }
watch = perfwatch(dir="after")
fit(watch)
outcomes["after"] = {"steps": [list(steps_of(path)) for path in trace_files("after")]}
print("OUTCOMES" + json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcomes_of(BROKEN_OFF, tmp_path_factory.mktemp("broken_off"))


@pytest.mark.parametrize(
    ("cause", "raised", "steps"),
    [
        ("error", "RuntimeError: the user's own", [2]),
        ("ctrl_c", "SystemExit: 1", [2]),
        ("sigterm", "SIGTERMException: ", [2, 3]),  # Lightning lets the running step end
    ],
)
def test_a_run_that_breaks_off_keeps_its_partial_trace(
    broken_off: dict[str, Any], cause: str, raised: str, steps: list[int]
) -> None:
    """PL#9941, PL#11924, PL#2079, PL#20542, PL#5969 (2): flushed, labelled, and the cause is never masked."""
    outcome = broken_off[cause]
    assert outcome["raised"] == raised
    assert outcome["steps"] == [steps]
    assert outcome["partial"] == [True]
    assert "the run ended with" in outcome["reasons"][0]
    assert outcome["samples"] == 2 * (steps[-1] + 1)
    assert not outcome["still_running"] and not outcome["hooks"]


def test_the_fit_after_a_broken_one_is_profiled_in_full(broken_off: dict[str, Any]) -> None:
    """PL#9941 (2): nothing of the broken run is left behind in the process."""
    assert broken_off["after"]["steps"] == [[2, 3, 4]]


@pytest.mark.parametrize("limits", [{"max_steps": 0}, {"limit_train_batches": 0}])
@pytest.mark.filterwarnings("ignore:`max_steps=0`:UserWarning")
def test_a_fit_without_a_step_says_that_nothing_was_measured(
    limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """PL#13034 (4): nothing was started, so nothing is stopped; an older report does not pass for this fit's."""
    caplog.set_level(logging.INFO, logger="lightning_perfwatch")
    watch = perfwatch()
    fit(watch, train=loader(2))
    older = watch.report
    caplog.clear()

    fit(watch, **limits)

    assert older is not None and watch.report is None
    (said,) = said_by_perfwatch(caplog, logging.INFO)
    assert "no training step ran" in said


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
def test_resuming_a_finished_run_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    """PL#13034 (4): Lightning tears down what it never started."""
    fit(perfwatch(dir="one")).save_checkpoint("finished.ckpt")

    watch = perfwatch(dir="two")
    fit(watch, ckpt_path="finished.ckpt", max_epochs=1)

    assert watch.report is None
    assert not said_by_perfwatch(caplog)
    assert not trace_files("two")


def test_a_run_shorter_than_the_wait_is_reported_without_a_window() -> None:
    """PL#9450 (5): the report says that no window ran and has all that was measured."""
    watch = perfwatch(schedule=Schedule(skip_first=0, wait=50))
    fit(watch)

    assert watch.report is not None
    assert watch.report.windows == () and watch.report.top_ops == ()
    assert watch.report.throughput.steps_per_s
    text = " ".join(terminal.render(watch.report).split())
    assert "the window never ran: it begins with step 52 and the run ended after 10 steps" in text


class StopsOnAThread(Callback):
    """Ends the watch from another thread in the middle of its window."""

    def __init__(self, watch: PerfWatch) -> None:
        self.watch = watch

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            ending = threading.Thread(target=self.watch.on_exception, args=(trainer, pl_module, RuntimeError()))
            ending.start()
            ending.join()


def test_a_call_from_another_thread_does_not_stop_the_profiler(caplog: pytest.LogCaptureFixture) -> None:
    """PT#64795 (7): stopped elsewhere, a profiler loses its events and stays enabled on the thread that trains."""
    watch = perfwatch()
    fit(watch, others=[StopsOnAThread(watch)])

    assert not profiler_is_running()
    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4]]
    (warning,) = said_by_perfwatch(caplog)
    assert "another thread" in warning


def test_hooks_that_come_after_the_end_record_nothing() -> None:
    """PT#98124, PT PR#178288 (6): a step after the end does not restart the recording, a second end is harmless."""
    watch = perfwatch()
    module = Module()
    used = fit(watch, module)
    report = watch.report

    for _ in range(2):
        watch.on_train_batch_start(used, module, None, 0)
        watch.on_train_batch_end(used, module, None, None, 0)
        assert not profiler_is_running()
        watch.on_train_end(used, module)
        watch.on_fit_end(used, module)
        watch.teardown(used, module, "fit")

    assert watch.report is report
    assert len(trace_files()) == 1


class EndsItsEpochs(Module):
    """Every epoch ends with the start of its second batch."""

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        return -1 if batch_idx == 1 else None


def test_a_step_that_the_module_refuses_is_no_step() -> None:
    """PL#4481 (8): there is a start without an end; only whole steps are counted and recorded."""
    fit(
        perfwatch(schedule=Schedule(skip_first=0, wait=2, warmup=1, active=3)),
        EndsItsEpochs(),
        train=loader(4),
        max_epochs=8,
    )

    counted = evidence().counted
    assert counted is not None and (counted.num_batches, counted.samples) == (8, 16)
    (trace,) = trace_files()
    recorded = steps_of(trace)
    assert list(recorded) == [3, 4, 5]
    assert all(num_operators > 0 for num_operators in recorded.values())


class SkipsEveryThird(Module):
    """No loss for the batches 2, 5 and 8."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = super().training_step(batch, batch_idx)
        return None if batch_idx % 3 == 2 else loss


@pytest.mark.filterwarnings("ignore:`training_step` returned `None`:UserWarning")
def test_a_step_without_a_loss_has_no_backward_pass() -> None:
    """PL#3323, PL#6753 (9): absent, and not the last step's value; the first recorded step is one of them."""
    fit(perfwatch(), SkipsEveryThird())
    (trace,) = trace_files()
    assert list(steps_of(trace)) == [2, 3, 4]

    fit(perfwatch(schedule=NEVER, dir="undisturbed"), SkipsEveryThird())
    backward_ms = dict(enumerate(phase_ms("undisturbed")["backward"], start=1))
    assert [step for step, ms in backward_ms.items() if ms == 0] == [2, 5, 8]


class Tunable(Module):
    def __init__(self) -> None:
        super().__init__()
        self.lr = 1e-3

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
def test_steps_of_the_tuner_are_neither_recorded_nor_counted() -> None:
    """PL#4512 (10): the search for a learning rate calls ``setup`` and ``teardown`` only."""
    watch = perfwatch()
    used = trainer(watch)
    module = Tunable()
    Tuner(used).lr_find(module, loader(), num_training=8)
    assert watch.report is None and not trace_files()

    used.fit(module, loader())

    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4]]
    counted = evidence().counted
    assert counted is not None and counted.num_batches == 10


class Copies(Callback):
    """Copies the callbacks in the middle of the window, as a checkpoint or a sweep may do."""

    def __init__(self) -> None:
        self.pickled = b""
        self.copied: list[Any] = []

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            self.copied = copy.deepcopy([c for c in trainer.callbacks if c is not self])
            self.pickled = pickle.dumps(self.copied)


def test_a_copy_taken_in_the_window_can_watch_a_fit_of_its_own() -> None:
    """PL#1774, PL#15722 (11): settings travel, the running profiler does not, and the original is not disturbed."""
    copies = Copies()
    fit(perfwatch(), others=[copies])
    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4]]

    (copied,) = [callback for callback in copies.copied if isinstance(callback, PerfWatch)]
    (revived,) = [callback for callback in pickle.loads(copies.pickled) if isinstance(callback, PerfWatch)]
    assert copied.config == revived.config == perfwatch().config
    fit(revived)
    assert len(trace_files()) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pytorch_lightning")
def test_the_callback_works_in_the_other_namespace() -> None:
    """nvitop#112 (13): ``pytorch_lightning`` and ``lightning`` are one library under two names."""
    import pytorch_lightning as pl

    class Theirs(pl.LightningModule):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    watch = perfwatch()
    pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
        callbacks=[watch],
    ).fit(Theirs(), loader())

    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4]]
    assert watch.report is not None
    assert watch.report.run is not None and watch.report.run.lightning_version == pl.__version__
    assert watch.report.phases["forward"].share > 0 and watch.report.phases["optimizer"].share > 0


def test_each_fit_writes_beside_the_logs_of_its_own_run() -> None:
    """PL#20092 (14): the directory is chosen anew in each fit."""
    watch = PerfWatch(schedule=SHORT, quiet=True)
    for version in ("version_0", "version_1"):
        fit(watch, logger=CSVLogger(".", name="logs", version=version))
        assert watch.report is not None and watch.report.directory == str(Path(f"logs/{version}/perfwatch").resolve())

    assert [len(trace_files(f"logs/{version}/perfwatch")) for version in ("version_0", "version_1")] == [1, 1]
