"""The comparison of two reports as plain data.

Owns what is set side by side. Knows nothing of files and of how it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lightning_perfwatch.comparison.finding_changes import FindingChange, finding_changes
from lightning_perfwatch.comparison.pace import machines_pace
from lightning_perfwatch.comparison.setup import Difference, differences, in_order
from lightning_perfwatch.comparison.speed import Change, changes, main_rate
from lightning_perfwatch.report import Report, encodable, to_json

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Side:
    """One of the two: where it lies, what it is of, and how many steps were measured."""

    place: str | None
    model: str | None
    device: str | None
    num_steps: int | None


@dataclass(frozen=True)
class Pair:
    """A figure before and after; None where it is not known. ``share_before`` and ``share_after`` are parts of 1."""

    name: str
    before: float | None
    after: float | None
    share_before: float | None = None
    share_after: float | None = None

    @property
    def ratio(self) -> float | None:
        """After / before; None where that can't be told."""
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True)
class Comparison:
    """Two reports side by side.

    ``speed`` are the rates, ``main_rate`` is the one to look at. ``step_time_s`` holds ``p50``, ``p95`` and ``mean``,
    ``phases`` and ``operations`` hold seconds per step with their shares of the step and of the profiled window.
    ``goodput_share`` is that of the wall clock. ``settings`` are those that differ, the machine's pace among them.
    """

    before: Side
    after: Side
    is_same_run: bool
    main_rate: str | None
    speed: tuple[Change, ...] = ()
    step_time_s: tuple[Pair, ...] = ()
    goodput_share: Pair | None = None
    phases: tuple[Pair, ...] = ()
    operations: tuple[Pair, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    settings: tuple[Difference, ...] = ()

    @property
    def doubts(self) -> tuple[Difference, ...]:
        """The settings for which the figures are no measure of each other."""
        return tuple(one for one in self.settings if one.doubt is not None)

    @property
    def main(self) -> Change | None:
        """The change of the rate to look at; None if none is known of both."""
        return next((change for change in self.speed if change.rate == self.main_rate), None)


def compare(before: Report, after: Report) -> Comparison:
    """Set two reports side by side; the same two always give the same answer.

    Raises:
        ValueError: one of them holds nothing that was measured.
    """
    for name, report in (("before", before), ("after", after)):
        if _is_empty(report):
            place = report.directory or report.source or f"the report {name}"
            raise ValueError(f"{place} holds no measurement to compare: no steps, no rates and no operations.")
    same = is_same_run(before, after)
    pace = machines_pace(before, after)
    return Comparison(
        before=_side(before),
        after=_side(after),
        is_same_run=same,
        main_rate=main_rate((before, after)),
        speed=changes(before, after, same),
        step_time_s=tuple(_step_times(before, after)),
        goodput_share=_known(Pair("goodput", before.throughput.goodput_share, after.throughput.goodput_share)),
        phases=tuple(_phases(before, after)),
        operations=tuple(_operations(before, after)),
        findings=finding_changes(before, after),
        settings=in_order((*differences(before, after), *(() if pace is None else (pace,)))),
    )


def is_same_run(before: Report, after: Report) -> bool:
    """Whether both are of one run, wherever its reports lie now and however often it was analysed."""
    if before.throughput.steps_per_s is not None:  # no two runs take the same time to the last digit
        return (before.run, before.loader, before.throughput) == (after.run, after.loader, after.throughput)
    nowhere: dict[str, Any] = {"directory": None, "source": None}
    return to_json(replace(before, **nowhere)) == to_json(replace(after, **nowhere))


def to_document(comparison: Comparison) -> str:
    """The comparison as JSON, its fields under their own names with ``schema_version`` first."""
    document = msgspec.to_builtins(comparison, enc_hook=_plain)
    for stored, pair in zip(document["operations"], comparison.operations, strict=True):
        stored["ratio"] = pair.ratio
    encoded = msgspec.json.encode(encodable({"schema_version": SCHEMA_VERSION, **document}))
    return msgspec.json.format(encoded).decode() + "\n"


def _plain(value: Any) -> Any:
    """A number of another library in a finding's evidence as Python's own."""
    return value.item() if hasattr(value, "item") else str(value)


def _is_empty(report: Report) -> bool:
    speed = report.throughput
    measured = (speed.step_time_s, speed.tokens_per_s, speed.samples_per_s, speed.steps_per_s)
    return not any((any(one is not None for one in measured), report.phases, report.top_ops, report.findings))


def _side(report: Report) -> Side:
    run, step_time = report.run, report.throughput.step_time_s
    return Side(
        place=report.directory or report.source,
        model=None if run is None else run.model,
        device=None if run is None else run.device_name or run.device_type,
        num_steps=None if step_time is None else step_time.num_steps,
    )


def _step_times(before: Report, after: Report) -> Iterable[Pair]:
    times = before.throughput.step_time_s, after.throughput.step_time_s
    for name in ("p50", "p95", "mean"):
        pair = _known(Pair(name, *(None if time is None else getattr(time, name) for time in times)))
        if pair is not None:
            yield pair


def _phases(before: Report, after: Report) -> Iterable[Pair]:
    for name in {**before.phases, **after.phases}:
        first, second = before.phases.get(name), after.phases.get(name)
        yield Pair(
            name,
            None if first is None else first.s_per_step,
            None if second is None else second.s_per_step,
            None if first is None else first.share,
            None if second is None else second.share,
        )


def _operations(before: Report, after: Report) -> Iterable[Pair]:
    """The slowest of both, those that changed most first; one that is not among the slowest is not known there."""
    first, second = ({op.name: op for op in report.top_ops} for report in (before, after))
    steps = tuple(len(report.host_steps) or None for report in (before, after))
    pairs = []
    for name in {**first, **second}:
        ops = first.get(name), second.get(name)
        per_step = [
            None if op is None or num_steps is None else op.self_s / num_steps
            for op, num_steps in zip(ops, steps, strict=True)
        ]
        pairs.append(Pair(name, *per_step, *(None if op is None else op.share for op in ops)))
    return sorted(pairs, key=lambda pair: -abs((pair.after or 0.0) - (pair.before or 0.0)))


def _known(pair: Pair) -> Pair | None:
    """The pair with None for what is no number; None where neither is."""
    values = [value if value is not None and math.isfinite(value) else None for value in (pair.before, pair.after)]
    return None if values == [None, None] else replace(pair, before=values[0], after=values[1])
