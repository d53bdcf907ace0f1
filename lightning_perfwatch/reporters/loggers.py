"""Metrics and the report for the Trainer's loggers, and for TensorBoard where no logger writes for it.

Owns the choice of where to log. Decides nothing and knows no Trainer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import tensorboard

log = logging.getLogger(__name__)


class LoggerSink:
    """Writes to all ``loggers``, and to event files in ``directory`` if none of them is a TensorBoard logger.

    A logger that raises is warned about once and left alone from then on.
    """

    def __init__(self, loggers: Sequence[Any], directory: Path | None) -> None:
        self._loggers = list(loggers)
        self._writer: Any = None
        if directory is not None and not any(_shows_text(logger) for logger in self._loggers):
            self._writer = tensorboard.open_writer(directory)

    def log(self, metrics: dict[str, float], step: int) -> None:
        """One row of metrics at ``step``."""
        for logger in list(self._loggers):
            try:
                logger.log_metrics(metrics, step=step)
            except Exception as error:  # noqa: BLE001 - a logger may fail in any way; the others go on
                self._drop(logger, error)
        if self._writer is not None:
            for key, value in metrics.items():
                self._writer.add_scalar(key, value, step)

    def text(self, report: Report, step: int) -> None:
        """The report as text, where it can be shown."""
        for logger in list(self._loggers):
            if _shows_text(logger):
                try:
                    tensorboard.write_text(report, logger.experiment, step)
                except Exception as error:  # noqa: BLE001 - as above
                    self._drop(logger, error)
        if self._writer is not None:
            tensorboard.write_text(report, self._writer, step)

    def close(self) -> None:
        """Flush and close what was opened here."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _drop(self, logger: Any, error: Exception) -> None:
        self._loggers.remove(logger)
        log.warning(
            "PerfWatch logs no more to %s, which failed with %s: %s.",
            type(logger).__name__, type(error).__name__, error,
        )  # fmt: skip


def _shows_text(logger: Any) -> bool:
    return any(kind.__name__ == "TensorBoardLogger" for kind in type(logger).__mro__)
