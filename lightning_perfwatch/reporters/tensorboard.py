"""The report as text in TensorBoard, through any writer with SummaryWriter's ``add_text``.

Owns the tag and the writer's creation. torch's writer is imported only where one is opened.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Protocol

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import markdown

log = logging.getLogger(__name__)

TEXT_TAG = "perfwatch/report"


class TextWriter(Protocol):
    """The part of ``SummaryWriter`` that is used here."""

    def add_text(self, tag: str, text_string: str, global_step: int | None = None) -> object:
        """Show ``text_string`` as Markdown under ``tag``."""


def write_text(report: Report, writer: TextWriter, step: int) -> None:
    """Show ``report`` in TensorBoard's text tab as it was at ``step``."""
    writer.add_text(TEXT_TAG, markdown.render(report), step)


def open_writer(directory: Path) -> Any:
    """A ``SummaryWriter`` for event files in ``directory``; None if TensorBoard can't be imported or written."""
    try:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(log_dir=str(directory))
    except (ImportError, OSError) as error:
        log.warning("PerfWatch writes nothing for TensorBoard: %s.", error)
        return None
