"""Public reports on tokens and samples per second: what is counted, and against which clock."""

from __future__ import annotations

import logging
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader, Dataset

from lightning_perfwatch.live.batch import Amounts
from lightning_perfwatch.measurements import Counted
from tests.reports.harness import NEVER, Module, evidence, fit, loader, perfwatch, said_by_perfwatch


def counted(directory: str | Path = "perfwatch") -> Counted:
    found = evidence(directory).counted
    assert found is not None
    return found


def count_numbers(batch: torch.Tensor) -> int:
    return batch.numel()


def test_throughput_does_not_depend_on_accumulation() -> None:
    """composer#271, axolotl#3688, PL#19461, nanoGPT PR#619 (63): every micro-batch counts, the short last group too."""
    rates = []
    for accumulate, num_optimizer_steps in ((1, 10), (2, 5), (4, 3)):
        directory = f"accumulate_{accumulate}"
        watch = perfwatch(schedule=NEVER, tokens=count_numbers, dir=directory)
        fit(watch, Module(forward_s=0.02), accumulate_grad_batches=accumulate)

        found = counted(directory)
        assert (found.num_batches, found.num_optimizer_steps) == (10, num_optimizer_steps)
        assert (found.samples, found.tokens) == (20, 160)
        assert sum(interval.tokens or 0 for interval in found.intervals) == 160
        assert watch.report is not None and watch.report.throughput.tokens_per_s is not None
        rates.append(watch.report.throughput.tokens_per_s)

    assert max(rates) <= 16 / 0.02, "16 tokens take at least 20 ms"
    assert max(rates) / min(rates) < 1.5


class Ready(Dataset[Any]):
    """The same ready-made batch, three times."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self.batch


def as_it_is(batch: Any) -> Any:
    return batch


class IgnoresItsBatch(Module):
    """Trains on a batch of any shape; names its size, since Lightning can't tell it either."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(torch.ones(2, 8)).mean()


class BatchEncoding(UserDict):  # type: ignore[type-arg]
    """A mapping that is no dict, as in transformers."""


def ids(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"n": torch.tensor(3.0), "input_ids": ids(4, 16)}, Amounts(4, 64)),
        ([torch.zeros(5), torch.zeros(7), torch.zeros(2)], Amounts(3, None)),
        ({"input_ids": ids(1, 4096), "cu": torch.zeros(9)}, Amounts(1, 4096)),
        (["a", "b"], Amounts(2, None)),
        (None, Amounts(None, None)),
        ((torch.zeros(4, 16), torch.zeros(4, 16)), Amounts(4, 64)),
        ({"a": torch.zeros(2, 8), "b": None}, Amounts(2, None)),
        (BatchEncoding(input_ids=ids(4, 16), attention_mask=ids(4, 16)), Amounts(4, 64)),
    ],
    ids=["dict", "ragged", "packed", "texts", "none", "pair", "with_none", "encoding"],
)
@pytest.mark.filterwarnings("ignore:train_dataloader yielded None:UserWarning")
def test_batches_of_any_shape_are_counted_or_unknown(
    batch: Any, expected: Amounts, caplog: pytest.LogCaptureFixture
) -> None:
    """PL#10349, PL#10093, PL#11423 (64): never an error, never a guess; unknown tokens are mentioned once."""
    caplog.set_level(logging.INFO, logger="lightning_perfwatch.live")
    fit(
        perfwatch(schedule=NEVER),
        IgnoresItsBatch(),
        train=DataLoader(Ready(batch), batch_size=None, collate_fn=as_it_is),
    )

    found = counted()
    assert found.num_batches == 3
    per_batch = Amounts(found.samples and found.samples // 3, found.tokens and found.tokens // 3)
    assert per_batch == expected
    hints = [said for said in said_by_perfwatch(caplog, logging.INFO) if "tokens" in said]
    assert len(hints) == (1 if expected.tokens is None else 0)


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended:UserWarning")
def test_a_resumed_run_counts_its_own_steps_only() -> None:
    """HF#40560, optimum-graphcore#89, PL#13124 (67): the rate is that of this session, not of all steps so far."""
    first = perfwatch(schedule=NEVER, dir="first", tokens=count_numbers)
    fit(first, Module(forward_s=0.02), train=loader(20), max_steps=6, max_epochs=-1).save_checkpoint("after_six.ckpt")

    second = perfwatch(schedule=NEVER, dir="second", tokens=count_numbers)
    used = fit(
        second, Module(forward_s=0.02), train=loader(20), max_steps=12, max_epochs=-1, ckpt_path="after_six.ckpt"
    )

    assert used.global_step == 12
    found = counted("second")
    assert (found.num_batches, found.num_optimizer_steps, found.tokens) == (6, 6, 96)
    rates = [watch.report and watch.report.throughput.tokens_per_s for watch in (first, second)]
    assert rates[0] and rates[1] and 0.5 < rates[1] / rates[0] < 2


class StopsEarly(Callback):
    """Asks for the end in the middle of an accumulation."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        trainer.should_stop = batch_idx == 1


def test_micro_batches_before_an_early_stop_are_reported() -> None:
    """traceml PR#460 (74): no optimizer hook is ever called, and what was seen is reported all the same."""
    watch = perfwatch()
    used = fit(watch, others=[StopsEarly()], accumulate_grad_batches=4)

    assert used.global_step == 0
    found = counted()
    assert (found.num_batches, found.num_optimizer_steps, found.samples) == (2, 0, 4)
    assert watch.report is not None and watch.report.throughput.samples_per_s
