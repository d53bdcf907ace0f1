"""Steps that count alike are told by a number: the meter's sums are those of steps that are taken one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lightning_perfwatch.counts import Counted, Flops
from lightning_perfwatch.live.batch_counter import BatchCounter
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.flop_meter import FlopMeter
from lightning_perfwatch.live.flops import StepFlops
from lightning_perfwatch.live.meter import Meter
from lightning_perfwatch.live.run_marks import RunMarks
from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.step_count import StepCount
from lightning_perfwatch.live.totals import RunTotals
from lightning_perfwatch.measurements import PHASES

NUM_STEPS = 30
COUNTED_STEP = 12
PHASES_NS = np.arange(NUM_STEPS * len(PHASES)).reshape(NUM_STEPS, len(PHASES)) * 1_000_000


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.long)


def padded(step: int) -> dict[str, torch.Tensor]:
    return {"input_ids": ids(2, 8), "attention_mask": (torch.arange(16) <= step % 16).view(2, 8)}


def measured(
    batches: Iterable[Any], num_at_once: int, *, is_asynchronous: bool = False, quietly: bool = False, **settings: Any
) -> Any:
    """All that a meter tells of ``batches``, with the times added for ``num_at_once`` steps at a time.

    ``quietly`` offers steps that can be like the one before as such.
    """
    loop = SimpleNamespace(
        _batches_that_stepped=0, _should_accumulate=lambda: False, batch_progress=SimpleNamespace(is_last_batch=False)
    )
    trainer: Any = SimpleNamespace(
        fit_loop=SimpleNamespace(epoch_loop=loop), world_size=1, global_step=0, log_every_n_steps=NUM_STEPS
    )
    device = Device(torch.device("cpu"))
    count = StepCount([], lambda: None)
    flops = FlopMeter(settings.get("flops_per_batch"), 1.0, device, "32-true", count)
    counter = BatchCounter(settings.get("tokens"))
    schedule = Schedule(skip_first=3, wait=10_000)
    timer: Any = SimpleNamespace(edge=nullcontext(), marks=RunMarks())
    meter = Meter(trainer, device, timer, schedule, counter, RunTotals(), flops)
    device.is_asynchronous = is_asynchronous
    are_pure = np.arange(NUM_STEPS) % 10 != 9
    edges, intervals, quiet, num_added, quiet_until = [], [], [], 0, 0
    for step, batch in enumerate(batches):
        loop._batches_that_stepped = step
        if step == COUNTED_STEP:
            count.result = StepFlops(6e9, "fp32")
        is_disturbed = 20 <= step < 22
        if step < quiet_until and not is_disturbed and meter.adds_alike(batch, 0):
            quiet.append(step)
            continue
        ends_interval = meter.step_ended(step, batch, is_disturbed=is_disturbed)
        if ends_interval or step + 1 - num_added >= num_at_once:
            for first in range(num_added, step + 1, num_at_once):
                rows = slice(first, min(first + num_at_once, step + 1))
                meter.add(PHASES_NS[rows], are_pure[rows])
            num_added = step + 1
        if ends_interval:
            edges.append(step)
            intervals.append(meter.close(0.0))
        quiet_until = meter.quiet_until(step) if quietly else 0
    return edges, intervals, meter.row(), meter.counted(), flops.flops(), quiet


BATCHES = {
    "all alike": [ids(2, 8)] * NUM_STEPS,
    "of two lengths": [ids(2, 8 if step % 7 else 4) for step in range(NUM_STEPS)],
    "with padding": [padded(step) for step in range(NUM_STEPS)],
    "of unknown tokens": [torch.ones(4, 2, 2)] * NUM_STEPS,
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize("is_asynchronous", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"flops_per_batch": 5e9}, {"flops_per_batch": lambda batch: 1e9}, {"tokens": len}]
)
def test_steps_added_at_once_are_those_added_one_by_one(
    batches: Sequence[Any], is_asynchronous: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Device, "synchronize", lambda _: 0.0)
    one_by_one = measured(batches, 1, is_asynchronous=is_asynchronous, **settings)

    for num_at_once in (4, 64):
        assert plain(measured(batches, num_at_once, is_asynchronous=is_asynchronous, **settings)) == plain(one_by_one)
    counted: Counted = one_by_one[3]
    assert counted.num_batches == NUM_STEPS
    assert counted.samples == sum(len(batch["input_ids"] if isinstance(batch, dict) else batch) for batch in batches)


@pytest.mark.parametrize("batches", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize(
    "settings", [{}, {"flops_per_batch": 5e9}, {"flops_per_batch": lambda batch: 1e9}, {"tokens": len}]
)
def test_steps_taken_quietly_count_as_those_that_are_not(batches: Sequence[Any], settings: dict[str, Any]) -> None:
    quiet = measured(batches, 64, quietly=True, **settings)

    assert plain(quiet) == plain(measured(batches, 1, **settings))
    is_told_by_shape = not callable(settings.get("flops_per_batch")) and "tokens" not in settings
    assert bool(quiet[5]) == is_told_by_shape
    num_nonpadding = sum(int(batch["attention_mask"].sum()) for batch in batches if isinstance(batch, dict))
    assert quiet[3].nonpadding_tokens == (num_nonpadding if num_nonpadding and "tokens" not in settings else None)


def test_a_batch_that_changes_after_its_step_counts_as_it_was() -> None:
    """A loader may fill the same memory again and again."""
    bounds = torch.tensor([0, 9])
    batch = {"input_ids": ids(1, 16), "cu_seqlens": bounds}

    def batches() -> Iterator[Any]:
        for step in range(NUM_STEPS):
            bounds[-1] = step
            yield batch

    counted: Counted = measured(batches(), 64, quietly=True)[3]
    assert counted.nonpadding_tokens == sum(range(NUM_STEPS))


def test_a_step_is_offered_as_quiet_only_where_no_interval_ends_and_no_row_is_due() -> None:
    quiet = measured([ids(2, 8)] * NUM_STEPS, 64, quietly=True)[5]

    # 0 to 2 are skipped, the FLOPs are counted with 12, 20 and 21 are disturbed and their interval ends with 22, a row
    # is due with 29; the first step of an interval has none before it
    assert quiet == [*range(4, 12), *range(13, 20), *range(24, 29)]


def test_batches_cost_what_the_counted_one_did_from_the_step_on_that_was_counted() -> None:
    batches = [ids(2, 8) if step < 20 else ids(2, 4) for step in range(NUM_STEPS)]
    flops: Flops = measured(batches, 64)[4]

    num_clean = NUM_STEPS - 3 - 2
    assert flops.flops_per_batch == pytest.approx(6e9 * (17 * 16 + 8 * 8) / 16 / num_clean)


def plain(told: Any) -> Any:
    """The same with sums of seconds that may be rounded otherwise."""
    edges, intervals, row, counted, flops, _ = told
    rounded = [interval and replace(interval, duration_s=round(interval.duration_s, 9)) for interval in intervals]
    metrics = {name: pytest.approx(value) for name, value in row.metrics.items()}
    per_batch = None if flops.flops_per_batch is None else pytest.approx(flops.flops_per_batch)
    return edges, rounded, row.step, metrics, counted.samples, counted.tokens, counted.nonpadding_tokens, per_batch
