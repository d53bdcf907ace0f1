"""Public reports on loggers, step axes and directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_perfwatch import PerfWatch
from tests.reports.harness import SHORT, Module, fit, loader, perfwatch, said_by_perfwatch, trace_files


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
