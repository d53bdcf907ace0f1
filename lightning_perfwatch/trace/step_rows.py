"""The breakdowns of single steps as rows in seconds, for storing and showing; knows no rule and no threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from lightning_perfwatch.trace.host_breakdown import HostBreakdown, host_breakdown
from lightning_perfwatch.trace.step_breakdown import StepBreakdown, step_breakdowns
from lightning_perfwatch.trace.trace import Trace

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class HostStep:
    """The host in one complete step of a trace; its parts are those of `HostBreakdown` and add up to `dur_s`.

    `start_s` is counted from the trace's first event. `other_threads_s` is no part of the step's own thread.
    """

    number: int
    start_s: float
    dur_s: float
    data_wait_s: float | None
    operators_s: float | None
    calls_s: float | None
    python_s: float
    other_threads_s: float | None


@dataclass(frozen=True)
class DeviceStep:
    """A device in one complete step of a trace, with the parts of `StepBreakdown`.

    `compute_s` + `exposed_communication_s` + `exposed_copy_s` + `idle_s` is `dur_s`; the five parts of the idle time
    add up to it.
    """

    device: int
    number: int
    start_s: float
    dur_s: float
    busy_s: float
    compute_s: float
    copy_s: float
    communication_s: float
    exposed_communication_s: float
    exposed_copy_s: float
    idle_s: float
    data_idle_s: float | None
    sync_idle_s: float | None
    stall_idle_s: float | None
    launch_idle_s: float | None
    other_idle_s: float | None


def host_steps(trace: Trace) -> tuple[HostStep, ...]:
    """The host's steps, in order of time."""
    return tuple(_rows(HostStep, host_breakdown(trace)))


def device_steps(trace: Trace) -> tuple[DeviceStep, ...]:
    """The steps of every device: device by device, in order of time."""
    return tuple(row for steps in step_breakdowns(trace) for row in _rows(DeviceStep, steps, device=steps.device))


def _rows(kind: type[RowT], columns: HostBreakdown | StepBreakdown, **same: int) -> Iterator[RowT]:
    """A row per step; a field in seconds is the column of its name in microseconds."""
    names = [part.name for part in fields(kind) if part.name not in same]  # type: ignore[arg-type]
    values = [_column(columns, name) for name in names]
    for row in zip(*values, strict=True):
        yield kind(**same, **dict(zip(names, row, strict=True)))


def _column(columns: HostBreakdown | StepBreakdown, name: str) -> Iterable[Any]:
    if name == "number":
        return list(map(int, columns.numbers))
    column = getattr(columns, name.removesuffix("_s") + "_us")
    return [None] * len(columns) if column is None else [round(value, 9) for value in (column / 1e6).tolist()]
