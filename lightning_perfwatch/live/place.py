"""Finds the run directory of a fit, the same on every rank.

Owns the choice among loggers. Asks the Trainer for no property that hides a collective call.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY_NAME = "perfwatch"


class Place(NamedTuple):
    """The run directory, or the reason why nothing can be written, in one clause."""

    path: Path | None
    reason: str | None = None


def find_place(trainer: Any, configured: os.PathLike[str] | str | None) -> Place:
    """The run directory as rank 0 chooses it, made and found writable there.

    A collective call: every rank has to make it.
    """
    choice: tuple[str | None, str | None] = (None, None)
    if trainer.global_rank == 0:
        try:
            choice = _choose(trainer, configured)
        except Exception as error:  # noqa: BLE001 - a logger may fail in any way, and the others wait for the answer
            choice = (
                None,
                f"the loggers tell no directory ({type(error).__name__}: {error}): give PerfWatch a dir",
            )
    path, reason = trainer.strategy.broadcast(choice)
    return Place(None if path is None else Path(path), reason)


def _choose(trainer: Any, configured: os.PathLike[str] | str | None) -> tuple[str | None, str | None]:
    wanted = os.fspath(configured) if configured is not None else log_directory(trainer)
    if "://" in wanted:
        return None, f"{wanted!r} is a remote path: give PerfWatch a local dir and copy it afterwards"
    path = Path(wanted) if configured is not None else Path(wanted) / DIRECTORY_NAME
    try:
        path = path.absolute()
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".writable.{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except (OSError, ValueError) as error:
        return None, f"{str(path)!r} can't be written ({error}): give PerfWatch another dir"
    return str(path), None


def log_directory(trainer: Any) -> str:
    """Where the run's logs lie: a TensorBoard logger's directory, any other logger's, or ``default_root_dir``."""
    loggers = list(trainer.loggers)
    for logger in sorted(loggers, key=lambda logger: not is_tensorboard(logger)):
        directory = getattr(logger, "log_dir", None) or _saved_below(logger)
        if directory:
            return str(directory)
    return str(trainer.default_root_dir)


def is_tensorboard(logger: Any) -> bool:
    """Whether ``logger`` is Lightning's TensorBoardLogger, of either namespace."""
    return any(kind.__name__ == "TensorBoardLogger" for kind in type(logger).__mro__)


def _saved_below(logger: Any) -> str | None:
    """``save_dir/name/version``, as far as the logger tells them: there Lightning puts such a logger's checkpoints."""
    if logger.save_dir is None:
        return None
    version = logger.version
    if version is not None and not isinstance(version, str):
        version = f"version_{version}"
    parts = (os.fspath(logger.save_dir), logger.name, version)  # no Path: it would spoil the // of a remote one
    return "/".join(str(part) for part in parts if part)
