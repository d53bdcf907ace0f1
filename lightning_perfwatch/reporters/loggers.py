"""Metrics and the report for the Trainer's loggers, and for TensorBoard where no logger writes for it.

Owns the choice of where to log. Decides nothing and knows no Trainer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import format_exception_only
from typing import Any

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import tensorboard

log = logging.getLogger(__name__)


class LoggerSink:
    """Writes to all ``loggers``, and to event files in ``directory`` if none of them is a TensorBoard logger.

    Whatever raises is warned about once and left alone from then on; the others go on.
    """

    def __init__(self, loggers: Sequence[Any], directory: Path | None) -> None:
        self._loggers = list(loggers)
        self._own: tensorboard.EventFiles | None = None
        if directory is not None and not any(_shows_text(logger) for logger in self._loggers):
            self._own = tensorboard.EventFiles(directory)
            self._loggers.append(self._own)

    def log(self, metrics: dict[str, float], step: int) -> None:
        """One row of metrics at ``step``."""
        self._each(self._loggers, lambda logger: logger.log_metrics(metrics, step=step))

    def text(self, report: Report, step: int) -> None:
        """The report as text, where it can be shown."""
        showing = [logger for logger in self._loggers if logger is self._own or _shows_text(logger)]
        self._each(showing, lambda logger: tensorboard.write_text(report, logger.experiment, step))

    def close(self) -> None:
        """Flush and close what was opened here."""
        if self._own in self._loggers:
            self._each([self._own], lambda files: files.close())

    def _each(self, loggers: Sequence[Any], action: Callable[[Any], object]) -> None:
        for logger in list(loggers):
            try:
                action(logger)
            except Exception as error:  # noqa: BLE001 - a logger may fail in any way
                self._loggers.remove(logger)
                log.warning(
                    "PerfWatch logs no more to %s, which failed: %s",
                    type(logger).__name__,
                    "".join(format_exception_only(error)).strip(),
                )


def _shows_text(logger: Any) -> bool:
    return any(kind.__name__ == "TensorBoardLogger" for kind in type(logger).__mro__)
