"""Public reports on loggers, step axes and directories."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader

from lightning_perfwatch import PerfWatch
from tests.reports.harness import SHORT, Module, Samples, fit, loader, perfwatch, said_by_perfwatch, trace_files


class Rows(Logger):
    """Keeps every row that it is given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "rows"

    @property
    def version(self) -> int:
        return 0

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def steps(self, key: str) -> list[int]:
        return [step for step, metrics in self.rows if step is not None and key in metrics]


class Fails(Rows):
    """A logger whose server is gone."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        super().log_metrics(metrics, step)
        if any(key.startswith("perfwatch/") for key in metrics):
            raise ConnectionError("the server is gone")


class Logs(Module):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss)
        return loss


@pytest.mark.parametrize("accumulate", [1, 2])
def test_metrics_stand_on_one_rising_axis_which_is_the_trainers(accumulate: int) -> None:
    """PL#4811, PL#13016, PL#5405, PL#13752, PL#20346, PL#7407 (90): a step that goes back makes wandb drop rows."""
    rows = Rows()
    fit(perfwatch(), Logs(), logger=rows, log_every_n_steps=1, accumulate_grad_batches=accumulate, max_epochs=2)

    own, theirs = rows.steps("perfwatch/step_time_ms"), rows.steps("loss")
    assert own == sorted(set(own)) and len(own) == 20 // accumulate
    assert set(own) <= set(theirs)
    every = [step for step, _ in rows.rows if step is not None]
    assert every == sorted(every)


def test_a_trainer_that_goes_on_logs_on_the_same_axis() -> None:
    """PL#4811, PL#20346 (90): a second fit starts its own count of steps, and no step is logged twice."""
    rows, watch, module = Rows(), perfwatch(), Logs()
    used = fit(watch, module, logger=rows, log_every_n_steps=1)
    used.fit_loop.max_epochs = 2
    used.fit(module, loader())

    assert rows.steps("perfwatch/step_time_ms") == list(range(20))
    assert watch.report is not None and watch.report.counted is not None
    assert (watch.report.counted.num_batches, watch.report.counted.num_optimizer_steps) == (10, 10)


class ByHand(Logs):
    """Manual optimisation with two optimizer steps in every batch but the odd ones, which have none."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        optimizer: Any = self.optimizers()
        for _ in range(0 if batch_idx % 2 else 2):
            optimizer.step()


class TwoOptimizers(Logs):
    """Two optimizers by hand, each of which steps in every batch: two steps of the Trainer and one row."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        for optimizer in cast("list[Any]", self.optimizers()):
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD([parameter], lr=1e-3) for parameter in self.parameters()]


def test_several_optimizers_make_one_row_a_batch() -> None:
    """PL#4811, PL#13752 (90), composer#271 (63): neither the axis nor a rate counts a batch once for each of them."""
    rows, watch = Rows(), perfwatch(tokens=lambda batch: batch.numel())
    used = fit(watch, TwoOptimizers(), logger=rows, log_every_n_steps=1)

    assert used.global_step == 20
    assert rows.steps("perfwatch/step_time_ms") == list(range(10))
    assert watch.report is not None and watch.report.counted is not None
    found = watch.report.counted
    assert (found.num_batches, found.num_optimizer_steps, found.samples, found.tokens) == (10, 20, 20, 160)


class Changing(DataLoader[Any]):
    """From the fourth batch on the batches have tokens that can be told."""

    def __iter__(self) -> Any:
        for number in range(8):
            yield torch.ones(2, 8) if number < 3 else {"input_ids": torch.zeros(2, 8, dtype=torch.long)}


class TakesAll(Logs):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(torch.ones(2, 8), batch_idx)


def test_a_metric_that_appears_later_costs_no_row() -> None:
    """PL#19432, PL PR#18567 (92): a CSV file that has begun without a key gets it, and keeps what it had."""
    logger = CSVLogger("csv", name="logs", flush_logs_every_n_steps=1)
    fit(perfwatch(), TakesAll(), train=Changing(Samples(16), batch_size=2), logger=logger, log_every_n_steps=1)

    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["perfwatch/step_time_ms"]] == list(range(8))
    assert [int(row["step"]) for row in rows if row["perfwatch/tokens_per_s"]] == list(range(3, 8))


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
def test_rows_stand_beside_lightnings_own() -> None:
    """PL#4811 (90): ``log_every_n_steps`` means the same steps for both, also by hand and after a resumption."""
    automatic, by_hand, resumed = Rows(), Rows(), Rows()
    fit(perfwatch(), Logs(), logger=automatic, log_every_n_steps=5)
    fit(perfwatch(), ByHand(), logger=by_hand, log_every_n_steps=2)
    fit(perfwatch(), Logs(), logger=False, max_steps=6, max_epochs=-1).save_checkpoint("after_six.ckpt")
    fit(perfwatch(), Logs(), logger=resumed, log_every_n_steps=5, max_epochs=2, ckpt_path="after_six.ckpt")

    assert automatic.steps("perfwatch/step_time_ms") == automatic.steps("loss") == [4, 9]
    assert by_hand.steps("perfwatch/step_time_ms") == by_hand.steps("loss") == [1, 3, 5, 7, 9]
    assert resumed.steps("perfwatch/step_time_ms") == resumed.steps("loss") == [9, 14]


def test_an_unknown_metric_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """MFU=None then logged (79): TensorBoardLogger refuses None, so a key without a value is not logged at all."""
    logger = TensorBoardLogger(".", name="logs")
    fit(perfwatch(dir=None), logger=logger, log_every_n_steps=1)

    shown = EventAccumulator(str(logger.log_dir)).Reload()
    tags = shown.Tags()["scalars"]
    assert "perfwatch/step_time_ms" in tags and "perfwatch/samples_per_s" in tags
    assert "perfwatch/mfu" not in tags and "perfwatch/tokens_per_s" not in tags
    assert not said_by_perfwatch(caplog)


def test_a_logger_that_fails_is_left_alone_after_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """PL#17159, PL#13253 (91): no monitor may end a training because of its logger; the other loggers go on."""
    fails, works = Fails(), Rows()
    used = fit(perfwatch(), Logs(), logger=[fails, works], log_every_n_steps=1)

    assert used.global_step == 10
    (warning,) = said_by_perfwatch(caplog)
    assert "Fails" in warning and "the server is gone" in warning
    assert len(fails.steps("perfwatch/step_time_ms")) == 1
    assert len(works.steps("perfwatch/step_time_ms")) == 10


@pytest.mark.parametrize("nothing", [False, []])
def test_without_a_logger_all_lies_below_the_root_directory(nothing: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PL#10201, PL#14091 (89), PL#17159 (91): no ``None/…`` directory, and no complaint about a missing logger."""
    fit(PerfWatch(schedule=SHORT, quiet=True), logger=nothing, default_root_dir="root", log_every_n_steps=1)

    assert len(trace_files("root/perfwatch")) == 1
    assert [path.name for path in Path().iterdir()] == ["root"]
    assert [path.name for path in Path("root").iterdir()] == ["perfwatch"]
    assert not said_by_perfwatch(caplog)


def test_of_several_loggers_tensorboards_directory_is_chosen() -> None:
    """PL#8157, PL#9866 (89): ``trainer.log_dir`` is the first logger's, where TensorBoard would not find the trace."""
    fit(
        PerfWatch(schedule=SHORT, quiet=True),
        logger=[CSVLogger("csv", name="logs"), TensorBoardLogger("board", name="logs")],
        log_every_n_steps=5,
    )

    assert len(trace_files("board/logs/version_0/perfwatch")) == 1
    assert not list(Path("csv").rglob("perfwatch"))


@pytest.mark.parametrize("kind", ["fast_dev_run", "barebones"])
@pytest.mark.filterwarnings("ignore:.*barebones.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*`self.log.*:UserWarning")
def test_bare_runs_are_not_disturbed(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """PL#10201, PL#14091 (89): Lightning has no directory then, and neither kind of run is ended or warned about."""
    watch = PerfWatch(schedule=SHORT, quiet=True)
    settings: dict[str, Any] = {kind: True}
    used = fit(watch, train=loader(4), **settings)

    assert used.global_step == (1 if kind == "fast_dev_run" else 4)
    assert not said_by_perfwatch(caplog)
    assert not Path("None").exists()
    if kind == "fast_dev_run":
        assert watch.report is None and not list(Path().iterdir())
    else:
        assert watch.report is not None and watch.report.throughput.samples_per_s
