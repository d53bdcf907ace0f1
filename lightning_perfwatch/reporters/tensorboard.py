"""The report as text in TensorBoard, through any writer with SummaryWriter's ``add_text``.

Owns the tag and the writer's creation. torch's writer is imported only where one is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import markdown

TEXT_TAG = "perfwatch/report"


class TextWriter(Protocol):
    """The part of ``SummaryWriter`` that is used here."""

    def add_text(self, tag: str, text_string: str, global_step: int | None = None) -> object:
        """Show ``text_string`` as Markdown under ``tag``."""


def write_text(report: Report, writer: TextWriter, step: int) -> None:
    """Show ``report`` in TensorBoard's text tab as it was at ``step``."""
    writer.add_text(TEXT_TAG, markdown.render(report), step)


class EventFiles:
    """Event files in ``directory``, with what LoggerSink asks of a logger; torch's writer is opened when first used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: Any = None

    @property
    def experiment(self) -> Any:
        """The writer. Raises whatever TensorBoard raises where it can't be imported or can't write."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(log_dir=str(self._directory))
        return self._writer

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """One row of scalars."""
        for key, value in metrics.items():
            self.experiment.add_scalar(key, value, step)

    def close(self) -> None:
        """Flush and close the files, if there are any."""
        if self._writer is not None:
            self._writer.close()
