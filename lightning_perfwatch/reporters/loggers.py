"""Metrics and the report for the Trainer's loggers, and event files in the run directory for what is TensorBoard's.

Owns the choice of what goes where. Decides nothing and knows no Trainer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import format_exception_only
from typing import Any

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import tensorboard
from lightning_perfwatch.reporters.hparams import settings

log = logging.getLogger(__name__)

_KEEP_SETTINGS = ("WandbLogger", "MLFlowLogger", "CometLogger")
"""The loggers that add settings to what they have. CSVLogger and TensorBoardLogger would write them into the user's
``hparams.yaml``, which ``load_from_checkpoint`` can take for a module's arguments."""


class LoggerSink:
    """Writes to all ``loggers`` through their own interface, and to event files in ``directory``.

    These hold the custom-scalars layout, the result of the run and its settings, and all rows and the report too if
    none of the loggers is a TensorBoard logger. So nothing of the user's own in TensorBoard changes. Whatever raises
    is warned about once and left alone from then on; the others go on.
    """

    def __init__(self, loggers: Sequence[Any], directory: Path | None) -> None:
        self._loggers = list(loggers)
        self._boards = [logger for logger in loggers if _is(logger, "TensorBoardLogger")]
        self._own = None if directory is None else tensorboard.EventFiles(directory)
        self._failed: list[Any] = []
        self._step = -1
        self._keys: set[str] = set()  # that were logged at this step
        if self._own is not None and not self._boards:
            self._loggers.append(self._own)

    def open(self) -> None:
        """Open the event files, which takes some milliseconds and an import: to be called before the first step."""
        self._each([self._own], lambda files: files.open())

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """One row of metrics at ``step``; a value that is no finite number is left out."""
        row = {key: value for key, value in metrics.items() if math.isfinite(value)}
        self._keys = set(row) if step > self._step else self._keys | set(row)
        self._step = max(step, self._step)
        self._each(self._loggers, lambda logger: tensorboard.log_row(logger, dict(row), step))

    def conclude(
        self,
        report: Report,
        row: Mapping[str, float],
        result: Mapping[str, float],
        step: int,
        *,
        is_complete: bool = True,
    ) -> None:
        """The end: a last ``row`` and the ``result`` at ``step``, the report as text, settings; then all is closed.

        Of the row, what was logged at this step before is left out: no metric has two values at one step.
        ``is_complete`` says whether the run came to its own end.
        """
        step = max(step, self._step)
        taken = self._keys if step == self._step else set()
        rest = {key: value for key, value in row.items() if key not in taken}
        if rest:
            self.log(rest, step)
        others = [logger for logger in self._loggers if logger not in self._boards and logger is not self._own]
        self._each([*others, self._own], lambda logger: logger.log_metrics(dict(result), step=step))
        used = settings(report)
        self._each(
            [logger for logger in others if _is(logger, *_KEEP_SETTINGS)], lambda logger: logger.log_hyperparams(used)
        )
        self._each(self._boards or [self._own], lambda logger: tensorboard.write_text(report, logger.experiment, step))
        if all(tensorboard.shows_no_hparams(board) for board in self._boards):
            theirs = tensorboard.hparams_of(self._boards)
            self._each([self._own], lambda files: files.write_session({**theirs, **used}, is_complete))
        self._each([self._own], lambda files: files.close())

    def _each(self, loggers: Sequence[Any], action: Callable[[Any], object]) -> None:
        for logger in loggers:
            if logger is None or any(logger is one for one in self._failed):
                continue
            try:
                action(logger)
            except Exception as error:  # noqa: BLE001 - a logger may fail in any way
                self._failed.append(logger)
                log.warning(
                    "PerfWatch logs no more to %s, which failed: %s",
                    type(logger).__name__,
                    "".join(format_exception_only(error)).strip(),
                )


def _is(logger: Any, *names: str) -> bool:
    """Whether this is a logger of Lightning's of one of these classes, of either of its packages."""
    return any(kind.__name__ in names for kind in type(logger).__mro__)
