"""The metrics that are logged: live ones in rows, those of a finished window, and those of the whole run.

Owns their names and their sums between two rows. Knows no logger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lightning_perfwatch.counts import Interval
from lightning_perfwatch.finding import Severity
from lightning_perfwatch.measurements import PHASES, Seconds
from lightning_perfwatch.report import Report

PREFIX = "perfwatch/"
RESULT_PREFIX = "perfwatch_result/"


class MetricRow(NamedTuple):
    """One row on the Trainer's own step axis; a metric that can't be told is left out.

    =========================== =========================================================
    ``tokens_per_s``            tokens per second of training, padding included
    ``nonpadding_tokens_per_s`` those of them that are no padding, where a mask tells
    ``samples_per_s``           samples per second of training
    ``mfu``                     model FLOPs utilisation (0..1) of the first rank's device
    ``step_time_ms``            mean time of one batch in milliseconds
    ``step_time_p50_ms``        median time of one batch in milliseconds
    ``step_time_p95_ms``        time that 95 % of the batches stay within, in milliseconds
    ``data_wait_share``         share of the step (0..1) that waits for data
    ``transfer_share``          share that moves the batch to the device
    ``forward_share``           share of ``training_step``
    ``backward_share``          share of the backward pass
    ``optimizer_share``         share of the optimizer, gradient clipping and schedulers
    ``callbacks_share``         share of callbacks, hooks and logging
    ``other_share``             share of the loop itself
    ``device_busy_share``       share (0..1) of a profiled window in which the devices were at work
    ``operators_share``         where the device is the CPU: share of a profiled step that its operators took
    ``own_cost_us``             microseconds per step that PerfWatch's own hooks took
    ``own_cost_share``          share of the step (0..1) that these are
    =========================== =========================================================

    All keys start with ``perfwatch/``. Phases are on the host's clock; the time of a batch and the rates hold the
    work of the device too, which is waited for before a row. The two percentiles are of the steps since the last row
    (the newest 8192 of them), on the device's clock where it runs on its own, and are left out where that was not
    read. In a run of several processes the three rates are the
    first process's own, and their names end in ``_rank``: the others' amounts are not known without asking them, and
    a step asks nobody. The report at the end holds the sums over all ranks.

    The last four come with the first row after a window's analysis, and once more at the end of the fit. What the
    whole run came to is logged once at its end, under ``perfwatch_result/``: ``tokens_per_s``, ``samples_per_s``,
    ``steps_per_s``, ``mfu``, ``goodput_share``, ``step_time_p50_ms``, ``step_time_p95_ms``, ``data_wait_share``,
    ``device_busy_share``, ``operators_share``, ``own_cost_share``, ``num_findings`` and ``num_critical_findings``.
    """

    step: int
    metrics: dict[str, float]


_RATES = ("tokens_per_s", "nonpadding_tokens_per_s", "samples_per_s")


class RowSums:
    """Adds up steps and intervals until a row is due, which has to stand at the edge of an interval."""

    def __init__(self, world_size: int) -> None:
        self._suffix = "_rank" if world_size > 1 else ""
        self._clear()

    def _clear(self) -> None:
        self._phases_ns = [0] * len(PHASES)
        self._flops: float | None = 0.0
        self._intervals: list[Interval] = []

    def add(self, phases_ns: list[int], flops: float | None = None) -> None:
        """Some steps; ``flops`` are the model's own of all of them, on this process's device."""
        self._phases_ns = [total + spent for total, spent in zip(self._phases_ns, phases_ns, strict=True)]
        self._flops = None if flops is None or self._flops is None else self._flops + flops

    def add_interval(self, interval: Interval) -> None:
        """The interval that these steps make up has ended."""
        self._intervals.append(interval)

    def take(
        self,
        step: int,
        peak_flops_per_s: float | None = None,
        newest_step_s: Callable[[int], Seconds | None] | None = None,
    ) -> MetricRow:
        """The row of the steps since the last one, to stand at ``step``; its MFU is of ``peak_flops_per_s``.

        ``newest_step_s`` gives the durations of the newest steps, as many as it is asked for, or None.
        """
        host_ns, duration_s = sum(self._phases_ns), sum(interval.duration_s for interval in self._intervals)
        metrics: dict[str, float] = {}
        if host_ns > 0 and duration_s > 0:
            amounts = zip(*((i.tokens, i.nonpadding_tokens, i.samples) for i in self._intervals), strict=True)
            for name, counts in zip(_RATES, amounts, strict=True):
                known = [count for count in counts if count is not None]
                if len(known) == len(counts):
                    metrics[PREFIX + name + self._suffix] = sum(known) / duration_s
            if self._flops is not None and peak_flops_per_s is not None:
                metrics[f"{PREFIX}mfu"] = self._flops / duration_s / peak_flops_per_s
            num_steps = sum(interval.num_steps for interval in self._intervals)
            metrics[f"{PREFIX}step_time_ms"] = duration_s * 1e3 / num_steps
            step_s = None if newest_step_s is None else newest_step_s(num_steps)
            if step_s is not None:
                ordered_s = sorted(step_s.tolist())
                metrics[f"{PREFIX}step_time_p50_ms"] = _quantile(ordered_s, 0.50) * 1e3
                metrics[f"{PREFIX}step_time_p95_ms"] = _quantile(ordered_s, 0.95) * 1e3
            for name, spent_ns in zip(PHASES, self._phases_ns, strict=True):
                metrics[f"{PREFIX}{name}_share"] = spent_ns / host_ns
        self._clear()
        return MetricRow(step, metrics)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """As numpy's ``quantile`` interpolates; of 50 steps that takes 58 µs, this with the sorting 3 µs."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def window_metrics(report: Report) -> dict[str, float]:
    """What only a finished window tells, for a row; what was not measured is left out."""
    return _known(PREFIX, {**_device(report), **_own_cost(report)})


def result_metrics(report: Report) -> dict[str, float]:
    """What the whole run came to, so that runs can be compared; what was not measured is left out."""
    speed, step_time, data_wait = report.throughput, report.throughput.step_time_s, report.phases.get("data_wait")
    return _known(
        RESULT_PREFIX,
        {
            "tokens_per_s": speed.tokens_per_s,
            "samples_per_s": speed.samples_per_s,
            "steps_per_s": speed.steps_per_s,
            "mfu": speed.mfu,
            "goodput_share": speed.goodput_share,
            "step_time_p50_ms": None if step_time is None else step_time.p50 * 1e3,
            "step_time_p95_ms": None if step_time is None else step_time.p95 * 1e3,
            "data_wait_share": None if data_wait is None else data_wait.share,
            **_device(report),
            "own_cost_share": _own_cost(report)["own_cost_share"],
            "num_findings": len(report.findings),
            "num_critical_findings": sum(finding.severity is Severity.CRITICAL for finding in report.findings),
        },
    )


def _device(report: Report) -> dict[str, float | None]:
    """Of several devices the mean; on a CPU its operators stand for what keeps a device busy."""
    busy = [device.busy_share for device in report.devices]
    operators_s = [(step.operators_s, step.dur_s) for step in report.host_steps if step.operators_s is not None]
    on_cpu = report.run is not None and report.run.device_type == "cpu"
    steps_s = sum(dur_s for _, dur_s in operators_s)
    return {
        "device_busy_share": sum(busy) / len(busy) if busy else None,
        "operators_share": sum(spent_s for spent_s, _ in operators_s) / steps_s if on_cpu and steps_s > 0 else None,
    }


def _own_cost(report: Report) -> dict[str, float | None]:
    cost_us = None if report.overhead is None else report.overhead.hook_us_per_step
    step_time = report.throughput.step_time_s
    if cost_us is None or step_time is None or step_time.mean <= 0:
        return {"own_cost_us": cost_us, "own_cost_share": None}
    return {"own_cost_us": cost_us, "own_cost_share": cost_us / 1e6 / step_time.mean}


def _known(prefix: str, values: dict[str, float | None]) -> dict[str, float]:
    return {prefix + name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
