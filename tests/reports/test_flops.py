"""Public reports on FLOPs and model FLOPs utilisation, on real Trainers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gpt import GPT
from lightning.pytorch import seed_everything
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_perfwatch import PerfWatch, Schedule
from lightning_perfwatch.counts import Flops
from lightning_perfwatch.report import Report
from tests.reports.harness import Module, fit, perfwatch, said_by_perfwatch

COUNTING = Schedule(skip_first=1, wait=2, warmup=1, active=2)
"""Step 2 is the last audited one."""

LAYERS, WIDTH, LENGTH, VOCABULARY, SAMPLES = 2, 32, 16, 64, 4
GPT_FLOPS = (6 * (LAYERS * 12 * WIDTH**2 + VOCABULARY * WIDTH) + 12 * LAYERS * LENGTH * WIDTH) * SAMPLES * LENGTH
"""Of one batch, forward and backward, by the closed form that test_step_count.py explains."""

LAYER_FLOPS = 2 * 2 * (2 * 8 * 8)
"""Of the toy module's linear layer on two samples: forward, and backward to its weight."""


@pytest.fixture(autouse=True)
def in_a_fresh_process(nothing_compiled: None) -> Iterator[None]:
    yield


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def report_of(watch: PerfWatch) -> Report:
    assert watch.report is not None
    return watch.report


def flops_of(watch: PerfWatch) -> Flops:
    flops = report_of(watch).flops
    assert flops is not None
    return flops


def text(num_batches: int = 12) -> DataLoader[Any]:
    ids = torch.randint(0, VOCABULARY, (num_batches * SAMPLES, LENGTH), generator=torch.Generator().manual_seed(0))
    samples: Any = [{"input_ids": row, "labels": row} for row in ids]
    return DataLoader(samples, batch_size=SAMPLES)


def gpt(dropout: float = 0.1) -> GPT:
    seed_everything(1, verbose=False)
    return GPT(
        vocab_size=VOCABULARY,
        block_size=LENGTH,
        num_layers=LAYERS,
        num_heads=2,
        embedding_dim=WIDTH,
        dropout=dropout,
        fused_optimizer=False,
    )


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_batch_costs_the_same_whatever_is_accumulated(accumulate: int) -> None:
    """A step is one batch: its FLOPs and its time belong together."""
    watch = perfwatch(schedule=COUNTING, peak_tflops=1.0)
    fit(watch, gpt(), text(), accumulate_grad_batches=accumulate)

    flops, speed = flops_of(watch), report_of(watch).throughput
    assert flops.flops_per_batch == pytest.approx(GPT_FLOPS, rel=0.01)
    assert flops.source == "counted"
    assert flops.flops_per_batch is not None and speed.steps_per_s is not None and speed.mfu is not None
    assert speed.mfu == pytest.approx(flops.flops_per_batch * speed.steps_per_s / 1e12)
    assert speed.model_tflops_per_s == pytest.approx(speed.mfu)


def test_the_metric_is_logged_when_it_is_known() -> None:
    """MFU=None then logged (79): rows before the count have no key, rows after it have."""
    logger = CSVLogger(".", name="logs")
    fit(perfwatch(schedule=COUNTING, peak_tflops=1.0), gpt(), text(), logger=logger, log_every_n_steps=1)

    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        logged = [bool(row.get("perfwatch/mfu")) for row in csv.DictReader(file) if row.get("perfwatch/step_time_ms")]
    assert logged == [False, False] + [True] * 10


class Keeps(Callback):
    """Keeps the losses."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(outputs["loss"].clone())


def test_counting_changes_neither_losses_nor_parameters_nor_random_numbers() -> None:
    outcomes = []
    for schedule in (COUNTING, Schedule(skip_first=10_000)):
        module, keeps = gpt(dropout=0.2), Keeps()
        watch = perfwatch(schedule=schedule)
        fit(watch, module, text(), others=[keeps])
        outcomes.append([*keeps.losses, *(p.detach() for p in module.parameters()), torch.get_rng_state()])
        assert (flops_of(watch).flops_per_batch is None) is (schedule is not COUNTING)

    assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))


class Told(Module):
    """Says itself what a batch costs, as Lightning's ThroughputMonitor asks for."""

    flops_per_batch = 1234


def test_what_the_module_says_is_taken_and_a_setting_wins_over_it() -> None:
    """PL#20660: the user knows best."""
    for settings, expected in (({}, 1234.0), ({"flops_per_batch": 77}, 77.0), ({"flops_per_batch": len}, 2.0)):
        watch = perfwatch(schedule=COUNTING, **settings)
        fit(watch, Told())
        assert (flops_of(watch).flops_per_batch, flops_of(watch).source) == (expected, "user")


def test_a_run_on_a_cpu_is_not_nagged(caplog: pytest.LogCaptureFixture) -> None:
    """PL#21450, PL#20660 (84, 78): no peak of a CPU is known, and nobody asked for it."""
    watch = perfwatch(schedule=COUNTING)
    fit(watch)

    assert flops_of(watch).flops_per_batch == LAYER_FLOPS
    assert report_of(watch).throughput.mfu is None
    assert not any("MFU" in note for note in report_of(watch).notes)
    assert not said_by_perfwatch(caplog)


def test_a_run_that_ends_before_the_count_says_so() -> None:
    watch = perfwatch(schedule=COUNTING)
    fit(watch, max_steps=2)

    assert flops_of(watch).flops_per_batch is None
    assert str(flops_of(watch).reason).startswith("the run ended before a step was counted")


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # dynamo's own
def test_a_compiled_module_is_counted_too() -> None:
    """PT#140909, PT#128199 (84): once it is compiled, and without compiling it again."""
    module = gpt(dropout=0.0)
    module.blocks = torch.compile(module.blocks, backend="aot_eager")  # type: ignore[assignment]
    watch = perfwatch(schedule=COUNTING)
    fit(watch, module, text())

    assert flops_of(watch).flops_per_batch == pytest.approx(GPT_FLOPS, rel=0.01)
