"""What goes to which logger: to real CSV and TensorBoard loggers, and to stand-ins with the interface of others."""

from __future__ import annotations

import csv
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.reporters.hparams import settings
from lightning_perfwatch.reporters.loggers import LoggerSink
from tests.reporters.factories import hostile_report, report
from tests.tensorboard_plugin.serving import Board, tensorboard

ROW = {"perfwatch/step_time_ms": 12.5, "perfwatch/forward_share": 0.5}
LAST = {"perfwatch/own_cost_share": 0.001, "perfwatch/operators_share": 0.6}
RESULT = {"perfwatch_result/tokens_per_s": 1234.0, "perfwatch_result/num_findings": 2.0}
REPORT = report(loader=LoaderInfo("DataLoader", num_workers=4, batch_size=32, pin_memory=False))


class Remote:
    """A logger whose server is not here: it has what Lightning's loggers have, and keeps all that it is given."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, float], int | None]] = []
        self.params: list[dict[str, Any]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append((dict(metrics), step))

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        self.params.append(dict(params))


class WandbLogger(Remote):
    """``log_hyperparams`` updates the run's config."""


class MLFlowLogger(Remote):
    """Parameters can't be changed: the server refuses another value for one that it has."""

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        if self.params:
            raise RuntimeError("Changing param values is not allowed.")
        super().log_hyperparams(params)


class SomebodysLogger(Remote):
    """Nobody knows what its ``log_hyperparams`` does with what is there."""


def run(directory: Path | None, *loggers: Any, is_complete: bool = True) -> None:
    """A run of two rows."""
    sink = LoggerSink(loggers, directory)
    sink.log(ROW, 4)
    sink.log(ROW, 9)
    sink.conclude(REPORT, LAST, RESULT, 11, is_complete=is_complete)


def events(path: Path) -> EventAccumulator:
    return EventAccumulator(str(path)).Reload()


def stored(folder: Path) -> list[Any]:
    """The events in the files of ``folder``, in their order."""
    return [event for path in sorted(folder.glob("events.*")) for event in EventFileLoader(str(path)).Load()]


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    found = events(path)
    return {tag: [(e.step, round(e.value, 6)) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_every_logger_gets_each_row_at_its_step_and_the_result_at_the_end() -> None:
    remote = Remote()
    run(None, remote)

    assert remote.rows == [(ROW, 4), (ROW, 9), (LAST, 11), (RESULT, 11)]


def test_no_metric_has_two_values_at_one_step() -> None:
    """PL#4811, PL#20346 (90): the axis rises strictly, also where the last row stands at the last step."""
    remote = Remote()
    sink = LoggerSink([remote], None)
    sink.log({**ROW, "perfwatch/own_cost_share": 0.002}, 9)
    sink.conclude(REPORT, LAST, RESULT, 9)

    assert [(set(row) & set(LAST), step) for row, step in remote.rows] == [
        ({"perfwatch/own_cost_share"}, 9),
        ({"perfwatch/operators_share"}, 9),
        (set(), 9),
    ]


def test_the_end_never_stands_before_the_last_row() -> None:
    """PL#4811 (90): a run that broke off within a step may have logged that step already."""
    remote = Remote()
    sink = LoggerSink([remote], None)
    sink.log(ROW, 9)
    sink.conclude(REPORT, LAST, RESULT, 8)

    assert [step for _, step in remote.rows] == [9, 9, 9]


def test_what_is_no_finite_number_is_left_out() -> None:
    """MFU=None then logged (79): a chart of NaN is one of nothing, and TensorBoard refuses None."""
    remote = Remote()
    LoggerSink([remote], None).log({**ROW, "perfwatch/mfu": math.nan, "perfwatch/tokens_per_s": math.inf}, 4)

    assert remote.rows == [(ROW, 4)]


def test_keys_that_come_late_cost_a_csv_file_nothing(tmp_path: Path) -> None:
    """PL#19432, PL PR#18567 (92): window metrics and the result come when the file has its columns."""
    logger = CSVLogger(tmp_path, name="logs", flush_logs_every_n_steps=1)
    run(None, logger)
    logger.finalize("success")

    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["perfwatch/step_time_ms"]) for row in rows[:2]] == [("4", "12.5"), ("9", "12.5")]
    assert [row["perfwatch/operators_share"] for row in rows] == ["", "", "0.6", ""]
    assert [row["perfwatch_result/tokens_per_s"] for row in rows] == ["", "", "", "1234.0"]


@pytest.mark.parametrize("kind", [CSVLogger, TensorBoardLogger])
def test_the_users_hyperparameters_stay_as_they_were(tmp_path: Path, kind: Any) -> None:
    logger = kind(tmp_path, name="logs")
    logger.log_hyperparams({"lr": 0.1})
    run(tmp_path / "perfwatch", logger)
    logger.finalize("success")

    assert yaml.safe_load((Path(logger.log_dir) / "hparams.yaml").read_text()) == {"lr": 0.1}


def test_settings_go_to_loggers_that_add_them_to_what_they_have() -> None:
    wandb, mlflow, other = WandbLogger(), MLFlowLogger(), SomebodysLogger()
    run(None, wandb, mlflow, other)

    assert wandb.params == mlflow.params == [settings(REPORT)]
    assert other.params == []
    assert settings(REPORT)["perfwatch/num_workers"] == 4
    assert all(name.startswith("perfwatch/") for name in settings(REPORT))
    assert None not in settings(REPORT).values()


def test_settings_that_are_refused_cost_one_warning_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    mlflow, works = MLFlowLogger(), Remote()
    run(None, mlflow, works)
    run(None, mlflow, works)

    (warning,) = said(caplog)
    assert "MLFlowLogger" in warning and "Changing param values is not allowed" in warning
    assert len(mlflow.rows) == len(works.rows) == 8


def test_hostile_names_become_settings_that_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hostile = hostile_report()
    LoggerSink([], tmp_path).conclude(hostile, LAST, RESULT, 3)

    assert not said(caplog)
    assert "\n" not in str(settings(hostile)["perfwatch/model"])


def test_without_a_tensorboard_logger_all_is_in_event_files_of_the_run_directory(tmp_path: Path) -> None:
    run(tmp_path, Remote())

    found = scalars(tmp_path)
    assert found["perfwatch/step_time_ms"] == [(4, 12.5), (9, 12.5)]
    assert found["perfwatch/operators_share"] == [(11, 0.6)]
    assert found["perfwatch_result/tokens_per_s"] == [(11, 1234.0)]
    assert "perfwatch/report/text_summary" in events(tmp_path).Tags()["tensors"]


def test_beside_a_tensorboard_logger_the_event_files_hold_what_the_user_did_not_ask_for(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name="logs", version=0)
    run(tmp_path / "perfwatch", logger)
    logger.finalize("success")

    theirs, ours = events(Path(logger.log_dir)).Tags(), events(tmp_path / "perfwatch").Tags()
    assert set(theirs["scalars"]) == {*ROW, *LAST}
    assert theirs["tensors"] == ["perfwatch/report/text_summary"]
    assert set(ours["scalars"]) == set(RESULT)
    assert "custom_scalars__config__" in ours["tensors"]


@pytest.mark.parametrize("is_own", [False, True])
def test_a_row_is_one_event(tmp_path: Path, is_own: bool) -> None:
    logger = TensorBoardLogger(tmp_path, name="logs", version=0)
    sink = LoggerSink([] if is_own else [logger], tmp_path / "perfwatch")
    sink.log(ROW, 4)
    sink.conclude(REPORT, {}, RESULT, 4)
    logger.finalize("success")

    folder = tmp_path / "perfwatch" if is_own else Path(logger.log_dir)
    assert next(len(event.summary.value) for event in stored(folder) if event.step == 4) == len(ROW)
    assert scalars(folder)["perfwatch/step_time_ms"] == [(4, 12.5)]


def test_a_tensorboard_logger_of_the_users_own_logs_as_it_does(tmp_path: Path) -> None:
    class Shouting(TensorBoardLogger):
        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            super().log_metrics({name.upper(): value for name, value in metrics.items()}, step)

    logger = Shouting(tmp_path, name="logs", version=0)
    LoggerSink([logger], tmp_path / "perfwatch").log(ROW, 4)
    logger.finalize("success")

    assert set(scalars(Path(logger.log_dir))) == {name.upper() for name in ROW}


# In TensorBoard itself


def layout(board: Board) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = board.ask("data/plugin/custom_scalars/layout").document["category"]
    return found


def hparams(board: Board) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The rows of the hparams tab by run, of its columns only, and the metrics that it knows."""
    experiment = board.ask(
        "data/plugin/hparams/experiment", "POST", b'{"experimentName": "", "includeMetrics": true}'
    ).document
    columns = [info["name"] for info in experiment.get("hparamInfos", [])]
    metrics = [info["name"]["tag"] for info in experiment.get("metricInfos", [])]
    asked = (
        b'{"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_UNKNOWN"],'
        b' "colParams": [], "startIndex": 0, "sliceSize": 100}'
    )
    groups = board.ask("data/plugin/hparams/session_groups", "POST", asked).document.get("sessionGroups", [])
    rows = {
        group["sessions"][0]["name"]: {
            "status": group["sessions"][0]["status"],
            **{name: value for name, value in group["hparams"].items() if name in columns},
            **{value["name"]["tag"]: value["value"] for value in group["sessions"][0].get("metricValues", [])},
        }
        for group in groups
    }
    return rows, metrics


@pytest.mark.parametrize("prefix", ["", "mine"])
def test_the_charts_of_the_layout_find_the_metrics(tmp_path: Path, prefix: str) -> None:
    logger = TensorBoardLogger(tmp_path, name="logs", version=0, prefix=prefix)
    run(tmp_path / "logs" / "version_0" / "perfwatch", logger)
    logger.finalize("success")
    with tensorboard(tmp_path) as board:
        (category,) = layout(board)
        (chart,) = [chart for chart in category["chart"] if chart["title"].startswith("step time")]
        (tag,) = chart["multiline"]["tag"]
        found = board.get_of("custom_scalars/scalars", run="logs/version_0", tag=tag).document

    assert category["title"] == "PerfWatch" and len(category["chart"]) == 6
    start = f"{prefix}-" if prefix else ""
    assert list(found["tag_to_events"]) == [f"{start}perfwatch/step_time_ms"]
    assert [row[1:] for row in found["tag_to_events"][f"{start}perfwatch/step_time_ms"]] == [[4, 12.5], [9, 12.5]]


def test_the_users_own_layout_stays(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name="logs", version=0)
    logger.experiment.add_custom_scalars({"mine": {"loss": ["Multiline", ["loss"]]}})
    run(tmp_path / "logs" / "version_0" / "perfwatch", logger)
    logger.finalize("success")
    with tensorboard(tmp_path) as board:
        titles = [category["title"] for category in layout(board)]

    assert titles == ["mine", "PerfWatch"]


def test_runs_are_compared_by_settings_and_result_in_the_hparams_tab(tmp_path: Path) -> None:
    run(tmp_path / "one" / "perfwatch", CSVLogger(tmp_path / "csv"))
    run(tmp_path / "two" / "perfwatch", is_complete=False)
    with tensorboard(tmp_path) as board:
        rows, metrics = hparams(board)

    assert {name: row["status"] for name, row in rows.items()} == {
        "one/perfwatch": "STATUS_SUCCESS",
        "two/perfwatch": "STATUS_FAILURE",
    }
    shown = rows["one/perfwatch"]
    assert (shown["perfwatch/num_workers"], shown["perfwatch/model"]) == (4, "GPT")
    assert shown["perfwatch/pin_memory"] is False
    assert shown["perfwatch_result/tokens_per_s"] == 1234
    assert set(RESULT) <= set(metrics)


def test_the_users_hyperparameters_stand_beside_perfwatchs_where_lightning_writes_none(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name="logs", version=0, default_hp_metric=False)
    logger.log_hyperparams({"lr": 0.1, "model": {"depth": 3, "name": "gpt"}})
    run(tmp_path / "logs" / "version_0" / "perfwatch", logger)
    logger.finalize("success")
    with tensorboard(tmp_path) as board:
        rows, _ = hparams(board)

    assert list(rows) == ["logs/version_0/perfwatch"]
    shown = rows["logs/version_0/perfwatch"]
    assert shown["lr"] == pytest.approx(0.1)
    assert (shown["model/depth"], shown["model/name"]) == (3, "gpt")
    assert shown["perfwatch/batch_size"] == 32


def test_where_lightning_has_written_its_own_hparams_the_tab_is_the_users(tmp_path: Path) -> None:
    """TensorBoard shows the columns of one experiment: a row of PerfWatch's would stand there without its values."""
    logger = TensorBoardLogger(tmp_path, name="logs", version=0)
    logger.log_hyperparams({"lr": 0.1})
    run(tmp_path / "logs" / "version_0" / "perfwatch", logger)
    logger.finalize("success")
    with tensorboard(tmp_path) as board:
        rows, metrics = hparams(board)

    assert list(rows) == ["logs/version_0"]
    assert metrics == ["hp_metric"]
    assert rows["logs/version_0"]["hp_metric"] == -1


def test_hyperparameters_that_come_after_the_run_are_shown(tmp_path: Path) -> None:
    """What the user logs later, with metrics of their own, is no less theirs."""
    logger = TensorBoardLogger(tmp_path, name="logs", version=0)
    run(tmp_path / "logs" / "version_0" / "perfwatch", logger)
    logger.log_hyperparams({"lr": 0.1}, {"accuracy": 0.9})
    logger.finalize("success")
    with tensorboard(tmp_path) as board:
        rows, metrics = hparams(board)

    assert metrics == ["accuracy"]
    assert rows["logs/version_0"]["accuracy"] == pytest.approx(0.9)
    assert rows["logs/version_0"]["lr"] == pytest.approx(0.1)


def test_the_report_is_shown_as_text_with_tables(tmp_path: Path) -> None:
    run(tmp_path / "perfwatch")
    with tensorboard(tmp_path) as board:
        shown = board.get_of("text/text", run="perfwatch", tag="perfwatch/report/text_summary", markdown="true")

    (text,) = shown.document
    assert text["step"] == 11
    assert "<table>" in text["text"] and "dataloader-starvation" in text["text"]


def test_event_files_that_can_not_be_written_cost_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "taken").write_text("a file")
    remote = Remote()
    run(tmp_path / "taken", remote)

    (warning,) = said(caplog)
    assert "EventFiles" in warning
    assert len(remote.rows) == 4


def test_a_report_without_settings_has_none() -> None:
    assert settings(replace(REPORT, run=None, loader=None)) == {}
