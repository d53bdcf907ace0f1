"""What is TensorBoard's own: the report as text, the layout of the custom scalars, a run's settings as hparams.

Owns tags, layout and the event files in the run directory. torch's writer is imported only where one is opened.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from lightning_perfwatch.measurements import PHASES
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import markdown
from lightning_perfwatch.reporters.wording import clean

TEXT_TAG = "perfwatch/report"


def _lines(*names: str) -> list[Any]:
    """A chart of these metrics; a tag begins with a logger's own prefix, if it has one."""
    return ["Multiline", [f"(.+-)?perfwatch/({'|'.join(names)})$"]]


LAYOUT = {
    "PerfWatch": {
        "throughput: tokens per second": _lines("tokens_per_s(_rank)?", "nonpadding_tokens_per_s(_rank)?"),
        "throughput: samples per second": _lines("samples_per_s(_rank)?"),
        "step time in ms: mean, p50, p95": _lines("step_time_ms", "step_time_p50_ms", "step_time_p95_ms"),
        "share of the step by phase": _lines(*(f"{phase}_share" for phase in PHASES)),
        "device busy (on a CPU: operators)": _lines("device_busy_share", "operators_share"),
        "PerfWatch's own cost: share of the step": _lines("own_cost_share"),
    }
}
"""Categories and charts of TensorBoard's custom scalars. They can't be stacked there."""


class TextWriter(Protocol):
    """The part of ``SummaryWriter`` that is used here."""

    def add_text(self, tag: str, text_string: str, global_step: int | None = None) -> object:
        """Show ``text_string`` as Markdown under ``tag``."""


def write_text(report: Report, writer: TextWriter, step: int) -> None:
    """Show ``report`` in TensorBoard's text tab as it was at ``step``."""
    writer.add_text(TEXT_TAG, markdown.render(report), step)


def log_row(logger: Any, row: dict[str, float], step: int) -> None:
    """Log ``row`` as one event where ``logger`` is Lightning's own TensorBoardLogger, else as the logger does it.

    It writes an event for each scalar, and torch's writer has a queue of ten: a row of more waits for its thread.
    """
    writer = _file_writer(logger)
    if writer is None:
        logger.log_metrics(row, step=step)
    else:
        _write_row(writer, row, step)


def _file_writer(logger: Any) -> Any:
    """torch's writer of events behind ``logger``; None where a row may go another way."""
    is_lightnings = type(logger).__module__.startswith(("lightning.pytorch.", "pytorch_lightning."))
    if not is_lightnings or type(logger).__name__ != "TensorBoardLogger" or logger._prefix:
        return None
    experiment = logger.experiment
    return getattr(experiment, "file_writer", None) if type(experiment).__module__.startswith("torch.") else None


def _write_row(writer: Any, row: Mapping[str, float], step: int) -> None:
    from tensorboard.compat.proto.summary_pb2 import Summary

    writer.add_summary(Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in row.items()]), step)


def shows_no_hparams(logger: Any) -> bool:
    """Whether a TensorBoardLogger has left TensorBoard's hparams tab alone.

    That tab shows the columns of one experiment, and Lightning writes one with its ``hp_metric``: others' settings
    would only be rows there without anything in them.
    """
    return not getattr(logger, "hparams", None) or not getattr(logger, "_default_hp_metric", True)


def hparams_of(loggers: Iterable[Any]) -> dict[str, str | int | float | bool]:
    """The user's own hyperparameters that these TensorBoardLoggers know, with nested ones' keys joined by ``/``."""
    flat: dict[str, str | int | float | bool] = {}
    waiting: list[tuple[str, Any]] = [("", getattr(logger, "hparams", None)) for logger in loggers]
    while waiting:
        name, value = waiting.pop(0)
        if isinstance(value, Mapping) or hasattr(value, "items"):
            waiting += [(f"{name}/{key}" if name else str(key), item) for key, item in value.items()]
        elif name:
            flat[clean(name)] = value if isinstance(value, int | float | bool) else clean(str(value))
    return flat


class EventFiles:
    """Event files in ``directory``, with what LoggerSink asks of a logger; torch's writer is opened when first used.

    Everything raises whatever TensorBoard raises where it can't be imported or can't write.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: Any = None

    @property
    def experiment(self) -> Any:
        """The writer."""
        self.open()
        return self._writer

    def open(self) -> None:
        """Open the files if they are not, with the layout of the custom scalars as the first thing in them."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(log_dir=str(self._directory))
            self._writer.add_custom_scalars(LAYOUT)
            self._writer.flush()

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """One row of scalars."""
        _write_row(self.experiment.file_writer, metrics, step)

    def write_session(self, hparams: Mapping[str, str | int | float | bool], is_complete: bool) -> None:
        """The run as a session of the hparams tab, whose metrics are the scalars in these files.

        No experiment is written: TensorBoard would show one's columns in place of all others'.
        """
        from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

        start, end = plugin_data_pb2.SessionStartInfo(), plugin_data_pb2.SessionEndInfo()
        for name, value in hparams.items():
            kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else None
            setattr(start.hparams[name], kind or "number_value", value)
        end.status = api_pb2.STATUS_SUCCESS if is_complete else api_pb2.STATUS_FAILURE
        end.end_time_secs = time.time()
        for tag, part in (
            (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
            (metadata.SESSION_END_INFO_TAG, {"session_end_info": end}),
        ):
            content = plugin_data_pb2.HParamsPluginData(**part, version=metadata.PLUGIN_DATA_VERSION)
            self._add_metadata(tag, metadata.PLUGIN_NAME, content.SerializeToString())

    def _add_metadata(self, tag: str, plugin: str, content: bytes) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata

        described = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))
        self.experiment.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, metadata=described)]))

    def close(self) -> None:
        """Flush and close the files, if there are any."""
        if self._writer is not None:
            self._writer.close()
