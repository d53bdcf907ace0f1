"""Runs to compare: reports with as many throughput intervals as wanted, and the noise that real runs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.rates import Rates
from lightning_perfwatch.report import Report, StepTime, Throughput
from lightning_perfwatch.settings import Settings
from tests.reporters.factories import phases, run_info

STEPS, SAMPLES, TOKENS = 10, 160, 20_480


def counted(durations_s: Sequence[float], **changes: Any) -> Counted:
    """Intervals of ten steps each that took so long."""
    known: dict[str, Any] = {"num_steps": STEPS, "samples": SAMPLES, "tokens": TOKENS}
    intervals = [
        Interval(last_step=STEPS * (number + 1) - 1, duration_s=float(s), **{**known, **changes})
        for number, s in enumerate(durations_s)
    ]
    total = STEPS * len(intervals)
    return Counted(num_batches=total, num_optimizer_steps=total, samples=None, tokens=None, intervals=tuple(intervals))


def run_of(amounts: Counted | None, **changes: Any) -> Report:
    """A run with these intervals; every field can be replaced."""
    rates = Rates.of(amounts) if amounts is not None else Rates(None, None, None)
    num_steps = sum(one.num_steps for one in amounts.intervals) if amounts is not None else 0
    step_s = 1 / rates.steps_per_s if rates.steps_per_s else 0.0
    step_time = StepTime(p50=step_s, p95=1.2 * step_s, mean=step_s, num_steps=num_steps) if num_steps else None
    known = Report(
        run=run_info(torch_version="2.14"),
        throughput=Throughput(
            tokens_per_s=rates.tokens_per_s,
            samples_per_s=rates.samples_per_s,
            steps_per_s=rates.steps_per_s,
            step_time_s=step_time,
            goodput_share=0.9,
        ),
        phases=phases(data_wait=1.0, forward=10.0, backward=20.0),
        counted=amounts,
        loader=LoaderInfo("DataLoader", num_workers=0, batch_size=16),
        settings=Settings(float32_matmul_precision="highest"),
    )
    return replace(known, **changes)


def run(*durations_s: float, **changes: Any) -> Report:
    """A run whose intervals took so long; eight of about one second by default."""
    return run_of(counted(durations_s or (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01)), **changes)


def noisy_durations(
    chance: np.random.Generator, num: int = 30, within: float = 0.03, between: float = 0.015, follow: float = 0.5
) -> list[float]:
    """Intervals of about a second: each run has a speed of its own, and neighbouring intervals are alike.

    ``within`` and ``between`` are standard deviations of the logarithm; ``follow`` is the correlation of neighbours.
    """
    level = between * chance.standard_normal()
    off = within * chance.standard_normal()
    logs = []
    for _ in range(num):
        logs.append(level + off)
        off = follow * off + within * np.sqrt(1 - follow**2) * chance.standard_normal()
    return [float(s) for s in np.exp(logs)]
