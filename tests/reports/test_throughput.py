"""Public reports on tokens and samples per second: what is counted, and against which clock."""

from __future__ import annotations

import logging
import time
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, Dataset

from lightning_perfwatch import Schedule
from lightning_perfwatch.counts import Counted, Totals
from lightning_perfwatch.live.batch_counter import Amounts
from tests.reports.harness import NEVER, Module, evidence, fit, loader, perfwatch, said_by_perfwatch, trainer


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
def test_a_resumed_run_has_its_own_rate_and_goes_on_with_the_totals() -> None:
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
    assert found.in_all == Totals(12, 12, 24, 192), "the totals go on where the checkpoint left them"
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


class Breaks(Module):
    """Ends in an error at one batch."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == 14:
            raise RuntimeError("power failure")
        return super().training_step(batch, batch_idx)


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended:UserWarning")
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`:UserWarning")
def test_totals_after_a_crash_are_those_of_the_checkpoint_and_validation_is_never_counted() -> None:
    """PL#19815, PL PR#20379, axolotl PR#3293 (68): steps lost with the crash are trained again and count once."""
    saves = ModelCheckpoint("checkpoints", filename="{step}", every_n_train_steps=10, save_top_k=-1)
    settings: dict[str, Any] = {"val": loader(3), "val_check_interval": 4}
    with pytest.raises(RuntimeError, match="power failure"):
        fit(
            perfwatch(dir="first", tokens=count_numbers),
            Breaks(),
            loader(20),
            others=[saves],
            enable_checkpointing=True,
            **settings,
        )
    assert counted("first").in_all == Totals(14, 14, 28, 224)

    used = fit(
        perfwatch(dir="second", tokens=count_numbers),
        train=loader(20),
        ckpt_path="checkpoints/step=10.ckpt",
        **settings,
    )

    assert used.global_step == 20
    found = counted("second")
    assert (found.num_batches, found.tokens) == (10, 160)
    assert found.in_all == Totals(20, 20, 40, 320)


@pytest.mark.filterwarnings("ignore:`weights_only` was not set:UserWarning")
def test_a_run_that_perfwatch_did_not_see_from_the_start_has_unknown_totals_and_known_rates() -> None:
    """PL#19815 (68): neither zero nor this session alone passes for the whole."""
    trainer().fit(Module(), loader(6))
    used = trainer(max_epochs=1)
    used.fit(Module(), loader(6))
    used.save_checkpoint("unseen.ckpt")
    fit(perfwatch(), train=loader(6), ckpt_path="unseen.ckpt", max_epochs=2)

    found = counted()
    assert (found.num_batches, found.samples) == (6, 12)
    assert found.in_all == Totals(None, None, None, None)


def test_two_of_them_save_and_load_checkpoints_side_by_side() -> None:
    """PL#20779 (1), PL#19815 (68): Lightning refuses two callbacks of one kind that have a state."""
    two = [perfwatch(dir="a"), perfwatch(dir="b")]
    used = trainer(*two)
    used.fit(Module(), loader(6))
    used.save_checkpoint("both.ckpt")

    assert torch.load("both.ckpt", weights_only=True)["lightning_perfwatch"]["num_batches"] == 6


def masked(num_rows: int = 4) -> dict[str, torch.Tensor]:
    """Half of the 16 tokens in a row are padding."""
    mask = (torch.arange(16) < 8).long().expand(num_rows, 16)
    return {"input_ids": ids(num_rows, 16), "attention_mask": mask}


@pytest.mark.parametrize(
    ("batch", "by"),
    [
        (masked(), "attention_mask"),
        ({"input_ids": ids(4, 16), "labels": torch.where(masked()["attention_mask"] > 0, 1, -100)}, "labels"),
        (BatchEncoding(masked()), "attention_mask"),
        ({"input_ids": ids(1, 64), "cu_seqlens": torch.tensor([0, 20, 32])}, "cu_seqlens"),
    ],
    ids=["mask", "labels", "encoding", "packed"],
)
def test_padding_is_counted_apart(batch: Any, by: str) -> None:
    """HF#32469, torchtune#2296, OLMo-core PR#870, sockeye#1073 (69): tokens with and without padding, both named."""
    watch = perfwatch(schedule=NEVER)
    fit(watch, IgnoresItsBatch(), train=DataLoader(Ready(batch), batch_size=None, collate_fn=as_it_is))

    found = counted()
    assert (found.tokens, found.nonpadding_tokens, found.nonpadding_by) == (3 * 64, 3 * 32, by)
    assert watch.report is not None
    speed = watch.report.throughput
    assert speed.tokens_per_s is not None
    assert speed.nonpadding_tokens_per_s == pytest.approx(speed.tokens_per_s / 2)


@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "max_size"])
@pytest.mark.parametrize("as_dict", [True, False])
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_batches_of_several_loaders_are_added_up(mode: Any, as_dict: bool) -> None:
    """PL#10349 (64): a ``CombinedLoader`` gives a batch of each loader, or None of one that is exhausted."""
    loaders = [DataLoader(Ready(masked(rows)), batch_size=None, collate_fn=as_it_is) for rows in (4, 2)]
    short = DataLoader(ReadyOnce(masked(1)), batch_size=None, collate_fn=as_it_is)
    several: Any = dict(zip("abc", [*loaders, short], strict=True)) if as_dict else [*loaders, short]
    fit(perfwatch(schedule=NEVER), IgnoresItsBatch(), train=CombinedLoader(several, mode))

    found = counted()
    batches, rows = {"min_size": (1, 7), "max_size_cycle": (3, 3 * 7), "max_size": (3, 3 * 6 + 1)}[mode]
    assert (found.num_batches, found.samples) == (batches, rows)
    assert (found.tokens, found.nonpadding_tokens) == (rows * 16, rows * 8)


class ReadyOnce(Ready):
    def __len__(self) -> int:
        return 1


class FetchesItself(IgnoresItsBatch):
    def training_step(self, dataloader_iter: Any) -> Any:  # type: ignore[override]
        batch, _, _ = next(dataloader_iter)
        assert batch["input_ids"].shape == (4, 16)
        return self.layer(torch.ones(2, 8)).mean()


@pytest.mark.filterwarnings("ignore:.*Here be dragons:UserWarning")
@pytest.mark.filterwarnings("ignore:Found `dataloader_iter` argument:UserWarning")
def test_a_step_that_fetches_its_own_batch_is_counted_by_it() -> None:
    """PL PR#8807, PL#10349 (24, 64): the hook before the step has no batch, the one after it has."""
    fit(perfwatch(schedule=NEVER), FetchesItself(), train=DataLoader(Ready(masked()), batch_size=None))

    found = counted()
    assert (found.num_batches, found.samples, found.tokens, found.nonpadding_tokens) == (3, 12, 192, 96)


@pytest.mark.filterwarnings("ignore:.*lower than the number of:UserWarning")
def test_fifty_validations_leave_the_clock_monotonic_and_are_outside_of_all_rates() -> None:
    """PL#21257 (66): no negative time, and the rates are those of training alone."""
    watch = perfwatch(schedule=NEVER)
    fit(watch, Module(validation_s=0.01), train=loader(2), val=loader(1), max_epochs=50, log_every_n_steps=1)

    found, wall_s = counted(), evidence().wall_s
    assert found.num_batches == 100
    assert all(interval.duration_s > 0 for interval in found.intervals)
    assert wall_s is not None and wall_s["validation"] >= 50 * 0.01
    assert all(seconds >= 0 for seconds in wall_s.values())
    assert sum(interval.duration_s for interval in found.intervals) == pytest.approx(wall_s["training"], rel=0.02)
    assert watch.report is not None
    assert watch.report.throughput.goodput_share == pytest.approx(wall_s["training"] / sum(wall_s.values()))


class Slow(Callback):
    """Takes its time before, within and after the training."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        time.sleep(0.1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        time.sleep(0.1)


class WallClock(Callback):
    """From the setup to the end of the training, by a clock of its own."""

    seconds = 0.0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.begun_s = time.perf_counter()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.seconds = time.perf_counter() - self.begun_s


def test_the_parts_of_the_wall_clock_add_up_to_it() -> None:
    """PL#10389, traceml PR#456 (59, 51): setup, sanity check and what follows the last step are told too."""
    clock = WallClock()
    used = trainer(Slow(), clock, perfwatch(schedule=NEVER), num_sanity_val_steps=2)
    used.fit(Module(forward_s=0.01, validation_s=0.05), loader(10), loader(2))

    wall_s = evidence().wall_s
    assert wall_s is not None
    assert set(wall_s) == {
        *("setup", "sanity_check", "training", "validation", "checkpoint", "epoch_start", "capture", "other")
    }
    assert wall_s["setup"] >= 0.1 and wall_s["sanity_check"] >= 2 * 0.05 and wall_s["other"] >= 0.1
    assert wall_s["validation"] >= 2 * 0.05 and wall_s["training"] >= 10 * 0.01
    assert sum(wall_s.values()) == pytest.approx(clock.seconds, abs=0.02)


def slow_compiler(graph: Any, inputs: Any) -> Any:
    time.sleep(0.3)
    return graph.forward


def test_a_slow_compilation_is_in_no_rate() -> None:
    """PT#97783, mmengine#1073 (60): the first steps take as long as they take; the rate is that of the others."""
    torch._dynamo.reset()
    watch = perfwatch(schedule=Schedule(skip_first=2, wait=10_000))
    compiled: Any = torch.compile(Module(), backend=slow_compiler)
    trainer(watch, log_every_n_steps=2).fit(compiled, loader(12))
    torch._dynamo.reset()

    intervals = counted().intervals
    assert sum(interval.duration_s for interval in intervals if not interval.clean) >= 0.3
    assert sum(interval.num_steps for interval in intervals if interval.clean) == 10
    assert watch.report is not None and watch.report.throughput.steps_per_s is not None
    assert watch.report.throughput.steps_per_s > 12 / 0.3
