"""Public reports on the split of the step: every millisecond belongs to the part that caused it.

Sleeps have hard lower bounds; upper bounds are medians with plenty of room, for a machine that is busy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader, IterableDataset

from tests.reports.harness import NEVER, Module, evidence, fit, loader, perfwatch, phase_ms

LITTLE_MS = 15


def rules_found(watch: Any) -> list[str]:
    assert watch.report is not None
    return [finding.rule for finding in watch.report.findings]


class Stopwatch(Callback):
    """The wall clock between the ends of two steps, in milliseconds."""

    def __init__(self) -> None:
        self.ends_s: list[float] = []

    def on_train_batch_end(self, *args: Any) -> None:
        self.ends_s.append(time.perf_counter())

    @property
    def steps_ms(self) -> list[float]:
        return [(end - start) * 1e3 for start, end in zip(self.ends_s, self.ends_s[1:], strict=False)]


class SlowTransfer(Module):
    def transfer_batch_to_device(self, *args: Any) -> Any:
        time.sleep(0.02)
        return super().transfer_batch_to_device(*args)


def test_the_phases_of_a_step_add_up_to_its_wall_clock_time() -> None:
    """traceml PR#456 (51): nothing is lost and nothing is counted twice; the transfer lies outside the batch hooks."""
    stopwatch = Stopwatch()
    fit(perfwatch(schedule=NEVER), SlowTransfer(forward_s=0.01), train=loader(load_s=0.01), others=[stopwatch])

    steps = phase_ms()
    sums = [sum(step) for step in zip(*steps.values(), strict=True)]
    assert len(sums) == len(stopwatch.steps_ms) == 9
    assert sum(sums) == pytest.approx(sum(stopwatch.steps_ms), abs=9)  # both are read within the same hook's call
    assert min(steps["transfer"]) >= 20
    assert min(steps["data_wait"]) >= 20
    assert median(steps["data_wait"]) < 20 + LITTLE_MS


class SlowToValidate(Module):
    def transfer_batch_to_device(self, *args: Any) -> Any:
        time.sleep(0 if self.training else 0.02)
        return super().transfer_batch_to_device(*args)


def test_loading_for_validation_is_no_wait_for_training_data() -> None:
    """traceml PR#456 (51): validation's fetches belong to validation, and so do its transfers."""
    watch = perfwatch(schedule=NEVER)
    fit(watch, SlowToValidate(), val=loader(2, load_s=0.02), val_check_interval=2, num_sanity_val_steps=0)

    assert sum(phase_ms()["data_wait"]) < 200
    assert sum(phase_ms()["transfer"]) < 100
    wall_s = evidence().wall_s
    assert wall_s is not None and wall_s["validation"] >= 5 * 2 * (2 * 0.02 + 0.02)
    assert "dataloader-starvation" not in rules_found(watch)


class SlowCheckpoint(ModelCheckpoint):
    def _save_checkpoint(self, trainer: Any, filepath: str) -> None:
        time.sleep(0.05)
        super()._save_checkpoint(trainer, filepath)


def test_validation_and_checkpoints_between_two_steps_are_no_wait_for_data() -> None:
    """PL#13095, PL#20580, composer PR#1053 (52): a gap between two hooks is not the loader's fault."""
    watch = perfwatch(schedule=NEVER)
    fit(
        watch,
        Module(validation_s=0.05),
        train=loader(8),
        val=loader(1),
        val_check_interval=1,
        others=[SlowCheckpoint(dirpath="checkpoints", every_n_train_steps=2, save_top_k=-1)],
        enable_checkpointing=True,
    )

    steps = phase_ms()
    assert sum(steps["data_wait"]) < 200
    assert sum(sum(phase) for phase in steps.values()) < 300
    wall_s = evidence().wall_s
    assert wall_s is not None
    assert wall_s["validation"] >= 8 * 0.05
    assert wall_s["checkpoint"] >= 4 * 0.05
    assert "dataloader-starvation" not in rules_found(watch)


def test_the_start_of_an_epoch_is_no_steady_wait_for_data() -> None:
    """PL#10389, PL#18862, PL#1884 (52, 59): starting workers anew in each epoch is told apart, with its remedy."""
    watch = perfwatch(schedule=NEVER)
    fit(watch, Module(forward_s=0.02), train=loader(2, num_workers=1), max_epochs=4)

    assert median(phase_ms()["data_wait"]) < LITTLE_MS
    starts, wall_s = evidence().epoch_starts, evidence().wall_s
    assert starts is not None and wall_s is not None and len(starts) == 4
    assert wall_s["epoch_start"] >= 0.9 * sum(start.iterator_s for start in starts), "no part of any step"
    assert watch.report is not None
    (finding,) = [finding for finding in watch.report.findings if "num_epochs" in finding.evidence]
    assert finding.rule == "worker-restart" and finding.evidence["num_epochs"] == 4
    assert "persistent_workers=True" in finding.advice


def starts_slowly(worker_id: int) -> None:
    """Long enough that nothing the training does before its first step hides all of it."""
    time.sleep(0.5)


def test_workers_that_live_on_are_no_finding() -> None:
    """PL#10389 (59): with ``persistent_workers`` the first epoch alone pays."""
    watch = perfwatch(schedule=NEVER)
    lasting = loader(2, num_workers=1, persistent_workers=True, worker_init_fn=starts_slowly)
    fit(watch, Module(forward_s=0.02), train=lasting, max_epochs=4)

    starts = evidence().epoch_starts
    assert starts is not None and len(starts) == 4
    first, *later = [start.iterator_s + start.first_wait_s for start in starts]
    assert min(later) < 0.1 < first
    assert watch.report is not None
    assert not any("num_epochs" in finding.evidence for finding in watch.report.findings)


def test_a_slow_forward_pass_inside_the_closure_is_no_optimizer_time() -> None:
    """PL#4937, PL#8222 (53): Lightning runs forward and backward within ``optimizer_step``."""
    fit(perfwatch(schedule=NEVER), Module(forward_s=0.05))

    steps = phase_ms()
    assert min(steps["forward"]) >= 50
    assert median(steps["optimizer"]) < LITTLE_MS
    assert median(steps["backward"]) < LITTLE_MS


class SlowSGD(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        time.sleep(0.05)
        return loss


class SlowOptimizer(Module):
    def configure_optimizers(self) -> Any:
        return SlowSGD(self.parameters(), lr=1e-3)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_slow_optimizer_is_counted_once_and_as_the_optimizer(precision: str) -> None:
    """PL#4937, traceml PR#456 (53, 51): what follows the closure is the optimizer's."""
    fit(perfwatch(schedule=NEVER), SlowOptimizer(), precision=precision)

    steps = phase_ms()
    assert min(steps["optimizer"]) >= 50
    assert median(steps["optimizer"]) < 90
    assert median(steps["forward"]) < LITTLE_MS


@pytest.mark.parametrize("accumulate", [4, 8])
def test_micro_batches_without_an_optimizer_step_have_no_optimizer_time(accumulate: int) -> None:
    """neuro-ml/thunder#79, traceml PR#456 (56, 51): absent where Lightning takes no step, whole where it does."""
    fit(perfwatch(schedule=NEVER), SlowOptimizer(), train=loader(16), accumulate_grad_batches=accumulate)

    optimizer_ms = dict(enumerate(phase_ms()["optimizer"], start=1))  # the step 0 is not steady
    stepping = {step for step in optimizer_ms if (step + 1) % accumulate == 0}
    assert min(optimizer_ms[step] for step in stepping) >= 50
    assert median(optimizer_ms[step] for step in optimizer_ms.keys() - stepping) < LITTLE_MS


class SlowEleventh(IterableDataset[torch.Tensor]):
    """Twenty samples of which the eleventh takes 200 ms."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(20):
            time.sleep(0.2 if index == 10 else 0)
            yield torch.ones(8)


def test_a_slow_batch_of_an_unsized_loader_is_charged_to_one_step() -> None:
    """PL PR#16776, PL#18135, PL#19539 (54): Lightning fetches one batch ahead, so the wait is a step early."""
    fit(perfwatch(schedule=NEVER), train=DataLoader(SlowEleventh(), batch_size=2))

    waits_ms = phase_ms()["data_wait"]
    assert len(waits_ms) == 9
    assert [step for step, wait_ms in enumerate(waits_ms, start=1) if wait_ms > 100] == [4]
    assert sum(waits_ms) >= 200
    assert min(waits_ms) >= 0


def test_the_wait_for_data_is_the_whole_of_the_request() -> None:
    """torchtitan PR#1481 (57): two samples of 20 ms each make a wait of at least 40 ms."""
    watch = perfwatch(schedule=NEVER)
    fit(watch, train=loader(load_s=0.02))

    assert min(phase_ms()["data_wait"]) >= 40
    assert rules_found(watch)[0] == "dataloader-starvation"
