"""Small real fits for the tests of public reports, and what they left behind.

Owns the toy data, the toy module and the Trainer's quiet settings. Knows no report.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, Dataset

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.measurements import PHASES
from lightning_perfwatch.run_directory import RunDirectory

SHORT = Schedule(skip_first=0, wait=1, warmup=1, active=3, repeat=1)
"""The schedule of the reports' own sketches: steps 2, 3 and 4 are recorded."""

NEVER = Schedule(skip_first=0, wait=10_000)
"""A window that no test reaches: every step but an epoch's first is steady, and nothing disturbs the times."""

REPO = Path(__file__).parents[2]


class Samples(Dataset[torch.Tensor]):
    """``num_samples`` vectors of eight numbers, each of which takes ``load_s`` seconds to load."""

    def __init__(self, num_samples: int = 20, load_s: float = 0.0) -> None:
        self.num_samples = num_samples
        self.load_s = load_s

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.load_s:
            time.sleep(self.load_s)
        return torch.full((8,), index / 10)


class Module(LightningModule):
    """One linear layer whose training step, validation step and optimizer take as long as they are told."""

    def __init__(self, forward_s: float = 0.0, validation_s: float = 0.0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.forward_s = forward_s
        self.validation_s = validation_s

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if self.forward_s:
            time.sleep(self.forward_s)
        return self.layer(batch).square().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if self.validation_s:
            time.sleep(self.validation_s)
        self.log("val_loss", self.layer(batch).sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def loader(num_batches: int = 10, load_s: float = 0.0, batch_size: int = 2, **settings: Any) -> DataLoader[Any]:
    """``num_batches`` batches, each of whose samples takes ``load_s`` seconds to load."""
    return DataLoader(Samples(num_batches * batch_size, load_s), batch_size=batch_size, **settings)


def perfwatch(**settings: Any) -> PerfWatch:
    """A quiet callback that writes to ``./perfwatch`` on the schedule SHORT."""
    return PerfWatch(**{"schedule": SHORT, "quiet": True, "dir": "perfwatch", "max_overhead_share": None, **settings})


def made_by_cli(callbacks: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> PerfWatch:
    """What LightningCLI makes of ``callbacks``, one of which is a PerfWatch; it warns of things deprecated."""
    monkeypatch.setattr(sys, "argv", ["train.py"])
    from lightning.pytorch.cli import LightningCLI

    arguments = {"trainer": {"accelerator": "cpu", "logger": False, "callbacks": callbacks}}
    cli = LightningCLI(Module, run=False, save_config_callback=None, seed_everything_default=False, args=arguments)
    made: Any = cli.trainer
    (watch,) = [callback for callback in made.callbacks if isinstance(callback, PerfWatch)]
    return watch


def trainer(*callbacks: Any, **settings: Any) -> Any:
    """A Trainer that does nothing but train one epoch on the CPU."""
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "max_epochs": 1,
    }
    return Trainer(callbacks=list(callbacks), **{**quiet, **settings})


def fit(
    watch: Any,
    module: LightningModule | None = None,
    train: Any = None,
    val: Any = None,
    *,
    others: Iterable[Any] = (),
    ckpt_path: Any = None,
    **settings: Any,
) -> Any:
    """Train ``module`` under ``watch``; further ``settings`` are the Trainer's.

    ``train`` is ten quick batches if it is None, and the module's own loader if it is False.
    """
    used = trainer(watch, *others, **settings)
    train = loader() if train is None else train
    used.fit(module or Module(), None if train is False else train, val, ckpt_path=ckpt_path)
    return used


def evidence(directory: str | Path = "perfwatch") -> Evidence:
    """What the fit that wrote to ``directory`` has measured."""
    return RunDirectory(Path(directory)).read_evidence()


def phase_ms(directory: str | Path = "perfwatch") -> dict[str, list[float]]:
    """The milliseconds of every steady step by phase."""
    steps = evidence(directory).steps
    assert steps is not None
    return {name: [float(s) * 1e3 for s in steps.host_s[:, column]] for column, name in enumerate(PHASES)}


def trace_files(directory: str | Path = "perfwatch") -> list[Path]:
    """The traces in ``directory``, oldest first."""
    return sorted(Path(directory).glob("*.pt.trace.json*"))


def read_events(path: Path) -> list[dict[str, Any]]:
    """The complete events of a trace, which has to be strict JSON."""
    return [event for event in read_document(path)["traceEvents"] if event.get("ph") == "X"]


def read_document(path: Path) -> dict[str, Any]:
    """The trace as strict JSON: no NaN, no bare control characters."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    document: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    return document


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def steps_of(path: Path) -> dict[int, int]:
    """Number of every ``ProfilerStep#`` in a trace and how many operators lie within it."""
    events = read_events(path)
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    return {
        int(step["name"].partition("#")[2]): sum(_is_within(event, step) for event in operators)
        for step in profiler_steps(events)
    }


def profiler_steps(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ``ProfilerStep#`` events in the order of time."""
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    return sorted(steps, key=lambda event: float(event["ts"]))


def _is_within(event: dict[str, Any], step: dict[str, Any]) -> bool:
    return bool(step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"])


def profiler_is_running() -> bool:
    """Whether a torch profiler runs on this thread."""
    return bool(torch._C._autograd._profiler_enabled())


def said_by_perfwatch(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What PerfWatch has logged at ``level`` or above."""
    ours = [record for record in caplog.records if record.name.startswith("lightning_perfwatch")]
    return [record.getMessage() for record in ours if record.levelno >= level]


def run_script(source: str, directory: Path, *, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run ``source`` as a script of its own in ``directory``, where it can import this harness."""
    script = directory / "script.py"
    script.write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    environment.pop("KINETO_LOG_LEVEL", None)  # set by earlier windows in this process
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
