"""The callback on real Trainers: it changes nothing, it never ends a training, and it works however it is used."""

from __future__ import annotations

import io
import logging
import pickle
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import Callback, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.profilers import SimpleProfiler
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lightning_perfwatch import PerfWatch, Report, Rule, Schedule, Triggers
from lightning_perfwatch.live.fit import FitWatch
from lightning_perfwatch.live.metrics import MetricRow
from lightning_perfwatch.rules.slow_hook import SlowHook
from tests.reports.harness import (
    NEVER,
    SHORT,
    Module,
    Samples,
    evidence,
    fit,
    loader,
    made_by_cli,
    perfwatch,
    phase_ms,
    said_by_perfwatch,
    steps_of,
    trace_files,
    trainer,
)


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def report_of(watch: PerfWatch) -> Report:
    assert watch.report is not None
    return watch.report


# It changes nothing


class Noisy(Samples):
    """Samples that depend on the state of the random generators."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(8) + np.random.rand() + random.random()


class Dropout(Module):
    """Remembers its losses; its step depends on the generator's state as well."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.layer(self.dropout(batch)).square().mean()
        self.losses.append(loss.item())
        return loss


def outcome(callbacks: list[Any], dropout: float, num_workers: int, accumulate: int) -> dict[str, Any]:
    """All that a run of 50 batches leaves behind."""
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    module = Dropout(dropout)
    data = DataLoader(Noisy(100), batch_size=2, shuffle=True, num_workers=num_workers)
    trainer(*callbacks, accumulate_grad_batches=accumulate).fit(module, data)
    return {
        "losses": module.losses,
        "parameters": [parameter.tolist() for parameter in module.parameters()],
        "torch": torch.get_rng_state().tolist(),
        "numpy": [str(part) for part in np.random.get_state()],
        "python": random.getstate(),
    }


@pytest.mark.parametrize(
    ("dropout", "num_workers", "accumulate"),
    [(0.0, 0, 1), (0.3, 0, 1), (0.3, 2, 1), (0.3, 0, 2)],
    ids=["plain", "dropout", "workers", "accumulation"],
)
def test_losses_parameters_and_random_states_are_bitwise_the_same(
    dropout: float, num_workers: int, accumulate: int
) -> None:
    watch = PerfWatch(quiet=True)  # as a user has it: the window lies within the 50 steps

    watched = outcome([watch], dropout, num_workers, accumulate)

    assert len(watched["losses"]) == 50
    assert watched == outcome([], dropout, num_workers, accumulate)
    assert [window.num_steps for window in report_of(watch).windows] == [5]


def test_a_quiet_run_prints_nothing_and_leaves_nothing_but_its_directory(capsys: pytest.CaptureFixture[str]) -> None:
    watch = PerfWatch(schedule=SHORT, quiet=True)
    fit(watch)

    assert capsys.readouterr().out == ""
    assert [path.name for path in Path().iterdir()] == ["perfwatch"]
    kinds = sorted(re.sub(r"\d{6,}.*?(?=\.pt|$)", "N", path.name) for path in Path("perfwatch").iterdir())
    assert kinds == [
        "events.out.tfevents.N",
        "evidence.json",
        "rank0.N.pt.trace.json.gz",
        "report.html",
        "report.json",
    ]
    assert report_of(watch).directory == str(Path("perfwatch").resolve())


WINDOW_LINE = "PerfWatch profiled steps 2 to 4"


class StopsAfter(Callback):
    """Ends a long training a few steps after a line has been printed, at most once."""

    def __init__(self, line: str, printed: io.StringIO) -> None:
        self.line = line
        self.printed = printed
        self.steps_left = 5

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.steps_left -= self.line in self.printed.getvalue()
        trainer.should_stop = self.steps_left == 0


def loud_fit(printed: io.StringIO, **settings: Any) -> None:
    """Up to 20 seconds of training, which is what the analysis of a window may take on a busy machine."""
    others = [StopsAfter(WINDOW_LINE, printed), *settings.pop("others", ())]
    fit(perfwatch(quiet=False), Module(forward_s=0.02), loader(1000), others=others, log_every_n_steps=1, **settings)


def test_a_loud_run_says_when_the_window_is_analysed_and_prints_its_report_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)

    loud_fit(printed)

    text = printed.getvalue()
    assert text.count(WINDOW_LINE) == 1
    assert text.count("the mean step") == 1
    assert text.index(WINDOW_LINE) < text.index("the mean step")


class Bar(TQDMProgressBar):
    """A progress bar that keeps what is printed through it."""

    def __init__(self) -> None:
        super().__init__()
        self.printed = io.StringIO()

    def print(self, *args: Any, **kwargs: Any) -> None:
        print(*args, file=self.printed)


def test_the_line_on_a_window_leaves_the_progress_bar_whole(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()

    loud_fit(bar.printed, others=[bar], enable_progress_bar=True)

    assert bar.printed.getvalue().count(WINDOW_LINE) == 1
    assert WINDOW_LINE not in capsys.readouterr().out


def recorded(profiler: SimpleProfiler) -> dict[str, int]:
    """How often each action was recorded, PerfWatch's own left out."""
    return {name: len(times) for name, times in profiler.recorded_durations.items() if "PerfWatch" not in name}


def test_the_users_own_profiler_keeps_its_full_summary() -> None:
    watched, alone = SimpleProfiler(), SimpleProfiler()
    used = fit(perfwatch(), profiler=watched)
    trainer(profiler=alone).fit(Module(), loader())

    assert used.profiler is watched
    assert recorded(watched) == recorded(alone)
    assert recorded(watched)["[Strategy]SingleDeviceStrategy.training_step"] == 10
    assert not watched.current_actions
    assert "training_step" in watched.summary()


# It never ends a training


def test_a_function_for_tokens_that_fails_costs_the_tokens_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fails(batch: Any) -> int:
        raise KeyError("length")

    watch = perfwatch(tokens=fails)
    used = fit(watch)

    assert used.global_step == 10
    (warning,) = said_by_perfwatch(caplog)
    assert "KeyError: 'length'" in warning
    assert report_of(watch).throughput.tokens_per_s is None
    assert report_of(watch).throughput.samples_per_s
    assert len(trace_files()) == 1


@dataclass(frozen=True)
class BreaksDown(Rule):
    """A rule of the user's own that fails."""

    def check(self, evidence: Any) -> Any:
        raise ZeroDivisionError("no steps")


def test_a_rule_of_the_users_own_that_fails_is_skipped_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    watch = perfwatch(rules=[BreaksDown(), "host-sync"])
    used = fit(watch, Module(forward_s=0.01))

    assert used.global_step == 10
    assert report_of(watch).skipped[BreaksDown.id()] == "the rule failed with ZeroDivisionError: no steps"
    assert "host-sync" not in report_of(watch).skipped
    assert report_of(watch).top_ops, "the trace was read all the same"
    assert not said_by_perfwatch(caplog)


@pytest.mark.parametrize("failing_step", [0, 3, 7], ids=["first", "in_window", "after_window"])
def test_a_failure_of_its_own_is_said_once_and_training_goes_on(
    failing_step: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step_ended = FitWatch.step_ended
    num_calls = 0

    def fails(self: FitWatch, batch: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls > failing_step:
            raise ArithmeticError("a fault of PerfWatch")
        return step_ended(self, batch)

    monkeypatch.setattr(FitWatch, "step_ended", fails)
    profiler = SimpleProfiler()
    used = fit(perfwatch(), profiler=profiler)

    assert used.global_step == 10
    assert used.profiler is profiler
    assert recorded(profiler)["[Strategy]SingleDeviceStrategy.training_step"] == 10
    assert num_calls == failing_step + 1
    errors = [record for record in caplog.records if record.name.startswith("lightning_perfwatch")]
    assert [record.exc_info is not None for record in errors] == [True]
    assert "PerfWatch failed" in errors[0].getMessage()


def test_a_failure_of_its_own_at_the_start_leaves_the_trainer_as_it_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise ArithmeticError("a fault of PerfWatch")

    monkeypatch.setattr("lightning_perfwatch.live.fit.find_loader", fails)
    watch = perfwatch()
    profiler = SimpleProfiler()
    used = fit(watch, profiler=profiler)

    assert used.global_step == 10 and used.profiler is profiler
    assert watch.report is None
    assert len(said_by_perfwatch(caplog)) == 1


def test_an_analysis_that_crashes_costs_one_warning_and_the_trace_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lightning_perfwatch.live.analysis.sys.executable", "/bin/false")
    watch = perfwatch()
    fit(watch)

    (warning,) = said_by_perfwatch(caplog)
    assert "the analysis failed" in warning and "perfwatch analyze" in warning
    assert report_of(watch).throughput.samples_per_s and report_of(watch).phases
    assert report_of(watch).top_ops == ()
    assert len(trace_files()) == 1


# It works however it is used


def test_two_fits_with_one_callback_have_a_report_each() -> None:
    watch = perfwatch()
    fit(watch, train=loader(10))
    first = report_of(watch)
    fit(watch, train=loader(8))
    second = report_of(watch)

    assert first.counted is not None and second.counted is not None
    assert (first.counted.num_batches, second.counted.num_batches) == (10, 8)
    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4], [2, 3, 4]]
    assert len(second.windows) == 1


def test_a_pickled_callback_keeps_settings_and_report() -> None:
    watch = perfwatch(tokens="input_ids", ignore=["slow-hook"])
    fit(watch)

    revived = pickle.loads(pickle.dumps(watch))

    assert revived.config == watch.config
    assert revived.report == watch.report


class Stream(IterableDataset[torch.Tensor]):
    """Twenty token sequences, whose number nobody can ask for."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (torch.full((16,), index, dtype=torch.long) for index in range(20))


class Embeds(LightningModule):
    """A language model's input and nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 8)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        ids = batch if isinstance(batch, torch.Tensor) else batch[0]
        return self.embedding(ids).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def test_an_unsized_stream_is_watched_over_epochs() -> None:
    watch = perfwatch(schedule=Schedule(skip_first=0, wait=4, warmup=1, active=10))
    fit(watch, Embeds(), train=DataLoader(Stream(), batch_size=2), max_epochs=2)

    counted = report_of(watch).counted
    assert counted is not None
    assert (counted.num_batches, counted.samples, counted.tokens) == (20, 40, 640)
    (trace,) = trace_files()
    assert list(steps_of(trace)) == list(range(5, 15)), "the window goes on over the end of an epoch"
    assert evidence().loader is not None


class Pairs(Module):
    """Trains on a dict with a batch of each loader."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch["small"]).mean() + self.layer(batch["large"]).mean()


def test_several_loaders_at_once_are_one_step() -> None:
    watch = perfwatch()
    fit(watch, Pairs(), train={"small": loader(10), "large": loader(5, batch_size=4)})

    counted = report_of(watch).counted
    assert counted is not None and (counted.num_batches, counted.samples) == (10, 60)
    assert [list(steps_of(path)) for path in trace_files()] == [[2, 3, 4]]


class SlowGradient(torch.autograd.Function):
    """The identity, whose gradient takes 20 ms."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return gradient


class SlowSGD(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        time.sleep(0.02)
        return super().step(closure)


class Gan(LightningModule):
    """Two networks, two optimizers, and a step that drives them by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = torch.nn.Linear(8, 8)
        self.critic = torch.nn.Linear(8, 1)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizers: Any = self.optimizers()
        for optimizer in optimizers:
            loss = SlowGradient.apply(self.critic(self.generator(batch)).mean())
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [SlowSGD(part.parameters(), lr=1e-3) for part in (self.generator, self.critic)]


def test_manual_optimisation_is_split_into_its_passes() -> None:
    fit(perfwatch(schedule=NEVER), Gan())

    steps = phase_ms()
    assert min(steps["backward"]) >= 2 * 20
    assert min(steps["optimizer"]) >= 2 * 20
    assert sum(steps["forward"]) < sum(steps["backward"]) / 2
    counted = evidence().counted
    assert counted is not None and (counted.num_batches, counted.num_optimizer_steps) == (10, 20)


@pytest.fixture
def fresh_compiler() -> Iterator[Any]:
    """``torch.compile`` as if nothing had been compiled, before and after."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    yield counters
    torch._dynamo.reset()
    counters.clear()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, on the import of its compiler
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_compiled_module_is_compiled_as_often_as_without_perfwatch(fresh_compiler: Any) -> None:
    num_graphs = []
    callbacks: list[Any]
    for callbacks in ([], [perfwatch(schedule=Schedule(skip_first=2, wait=2, warmup=1, active=3))]):
        torch._dynamo.reset()
        fresh_compiler.clear()
        module: Any = torch.compile(Module(), backend="eager")
        trainer(*callbacks).fit(module, loader(20))
        num_graphs.append(fresh_compiler["stats"]["unique_graphs"])

    assert num_graphs[0] > 0 and num_graphs[0] == num_graphs[1]
    assert [list(steps_of(path)) for path in trace_files()] == [[5, 6, 7]]
    found = evidence()
    assert found.run is not None and found.run.compiled and found.run.model == "Module"
    assert found.syncs is not None and not found.syncs.complete


# How it is made


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lightning_cli_makes_it_from_a_class_path(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = {
        "class_path": "lightning_perfwatch.PerfWatch",
        "init_args": {
            "schedule": {"skip_first": 1, "wait": 2},
            "tokens": "input_ids",
            "rules": {"slow-hook": {"warning_share": 0.2}},
            "triggers": {"signal": "SIGUSR2", "drift_factor": None},
            "quiet": True,
        },
    }
    watch = made_by_cli([callback], monkeypatch)

    assert watch.config.schedule == Schedule(skip_first=1, wait=2)
    assert (watch.config.tokens, watch.config.quiet) == ("input_ids", True)
    assert SlowHook(warning_share=0.2) in (watch.config.rules or ())
    assert watch.config.triggers == Triggers(signal="SIGUSR2", drift_factor=None)


def test_hydra_makes_it_from_a_target() -> None:
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    settings = {
        "_target_": "lightning_perfwatch.PerfWatch",
        "schedule": {"_target_": "lightning_perfwatch.Schedule", "wait": 2},
        "trace": {"max_trace_mb": 5},
        "triggers": {"max_drifts": 0},
        "ranks": [0, 1],
        "ignore": ["slow-hook"],
    }
    watch = instantiate(OmegaConf.create(settings))

    assert watch.config.schedule == Schedule(wait=2)
    assert watch.config.trace.max_trace_mb == 5
    assert watch.config.triggers == Triggers(max_drifts=0)
    assert (watch.config.ranks, watch.config.ignore) == ((0, 1), ("slow-hook",))


# Where it is seen


def keys_in_the_table() -> set[str]:
    """The metrics that MetricRow's docstring promises."""
    assert MetricRow.__doc__ is not None
    return {f"perfwatch/{name}" for name in re.findall(r"^ *``(\w+)`` ", MetricRow.__doc__, re.MULTILINE)}


@pytest.mark.parametrize("logger", ["tensorboard", "csv"])
def test_scalars_and_report_are_seen_in_tensorboard(logger: str) -> None:
    """Through the user's TensorBoard logger; with any other, in event files of PerfWatch's own."""
    used = TensorBoardLogger(".", name="logs") if logger == "tensorboard" else CSVLogger(".", name="logs")
    train = DataLoader(TensorDataset(torch.arange(160).reshape(20, 8) % 32), batch_size=2)
    watch = perfwatch(dir=None, flops_per_batch=1e6, peak_tflops=1.0)  # then all of them are known
    fit(watch, Embeds(), train=train, logger=used, log_every_n_steps=2)

    log_dir = Path("logs/version_0")
    shown = EventAccumulator(str(log_dir if logger == "tensorboard" else log_dir / "perfwatch")).Reload()
    own = {tag for tag in shown.Tags()["scalars"] if tag.startswith("perfwatch/")}
    unknown = {"perfwatch/nonpadding_tokens_per_s", "perfwatch/device_busy_share"}  # no mask, no device but the CPU
    told = keys_in_the_table() - unknown
    assert own == told
    assert [event.step for event in shown.Scalars("perfwatch/step_time_ms")] == [1, 3, 5, 7, 9]
    (text,) = shown.Tensors("perfwatch/report/text_summary")
    assert b"data wait" in text.tensor_proto.string_val[0]
    # the run's settings and result have event files of PerfWatch's own, so that the user's hparams stay as they are
    assert len(list(log_dir.rglob("events.out.*"))) == (2 if logger == "tensorboard" else 1)
    if logger == "csv":
        header = (log_dir / "metrics.csv").read_text().splitlines()[0].split(",")
        assert told <= set(header)


class Looks(Callback):
    """Looks for event files when the first step begins."""

    found: list[Path] | None = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.found is None:
            self.found = list(Path("perfwatch").glob("events.out.*"))


def test_no_step_pays_for_opening_the_event_files() -> None:
    looks = Looks()
    watch = perfwatch()
    fit(watch, others=[looks])

    assert looks.found == list(Path("perfwatch").glob("events.out.*"))
    assert len(looks.found) == 1


class Full(io.StringIO):
    """A terminal's pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError("nobody reads")


def test_a_report_that_can_not_be_printed_is_still_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Swap(Callback):
        """Takes the reader away just before the report."""

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            monkeypatch.setattr(sys, "stdout", Full())

    caplog.set_level(logging.WARNING)
    watch = perfwatch(quiet=False)
    used = fit(watch, others=[Swap()])
    monkeypatch.undo()

    assert used.global_step == 10
    assert report_of(watch).throughput.samples_per_s
