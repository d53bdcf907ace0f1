"""Short windows to record, and what their traces hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from lightning_perfwatch.live.capture import Capture
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.measurements import Window

PLANNED = range(10, 14)
A = torch.ones(8, 8)


def new_capture(directory: Path, **changes: Any) -> Capture:
    arguments = {"worker": "rank0", "device_types": ["cpu"], "options": TraceOptions()}
    return Capture(directory, **{**arguments, **changes})


def work() -> None:
    (A @ A).relu().sum()


def record(capture: Capture, num_steps: int) -> None:
    for _ in range(num_steps):
        capture.begin_step()
        work()
        capture.end_step()


def trial(capture: Capture, num_operations: int = 1) -> None:
    capture.begin_trial()
    for _ in range(num_operations):
        work()
    capture.end_trial(1)


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def document_of(directory: Path, window: Window) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert window.trace is not None
    document: dict[str, Any] = json.loads((directory / window.trace).read_bytes(), parse_constant=refuse)
    return document


def spans(document: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    events = [event for event in document["traceEvents"] if str(event.get("name", "")).startswith(prefix)]
    return sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])


def steps_of(directory: Path, window: Window) -> dict[str, int]:
    """Every span of a step in the trace and the number of operators that lie in it."""
    document = document_of(directory, window)
    multiplications = spans(document, "aten::mm")
    return {
        step["name"]: sum(step["ts"] <= mm["ts"] <= step["ts"] + step["dur"] for mm in multiplications)
        for step in (*spans(document, "ProfilerStep#"), *spans(document, "AbortedStep #"))
    }
