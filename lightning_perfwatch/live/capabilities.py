"""Tells, in a process of its own, what torch and lightning can measure on this machine.

Owns the questions, each answered in one line of JSON as soon as it is: ``{"name": {...}}``, or ``{"name": "why not"}``.
An import that ends the process, or never returns, takes only the answers that were to follow.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from traceback import format_exception_only
from typing import Any

from lightning_perfwatch.processes import answer_pipe

_NUM_TOOLS = 6
"""Tools that ``sys.monitoring`` has room for."""


def answer_all() -> None:
    """Write every answer to the stdout that the process was started with."""
    with answer_pipe() as answers:
        for name, question in QUESTIONS.items():
            answer: Any
            try:
                answer = question()
            except BaseException as error:  # noqa: BLE001 - a broken package raises anything, SystemExit too
                answer = "".join(format_exception_only(error)).strip() or type(error).__name__
            answers.write(json.dumps({name: answer}).encode() + b"\n")
            answers.flush()


def _watchers() -> dict[str, Any]:
    monitoring: Any = getattr(sys, "monitoring", None)  # since Python 3.12
    tools = [] if monitoring is None else [monitoring.get_tool(number) for number in range(_NUM_TOOLS)]
    found = [("a trace function", sys.gettrace()), ("a profile function", sys.getprofile())]
    names = [f"{kind} ({getattr(type(it), '__module__', '')})" for kind, it in found if it is not None]
    return {"names": [*names, *(f"the tool {tool!r}" for tool in tools if tool)]}


def _build() -> dict[str, Any]:
    import torch

    version = torch.version
    for kind, built_for_version in (
        ("rocm", version.hip),
        ("cuda", version.cuda),
        ("xpu", getattr(version, "xpu", None)),
    ):
        if built_for_version is not None:
            return {"version": torch.__version__, "built_for": kind, "built_for_version": str(built_for_version)}
    return {"version": torch.__version__, "built_for": "cpu"}


def _device_type() -> str | None:
    import torch

    for kind in ("cuda", "xpu", "mps"):
        if getattr(torch, kind).device_count():
            return kind
    return None


def _devices() -> dict[str, Any]:
    import torch

    kind = _device_type()
    if kind is None:
        return {"type": None, "names": []}
    module = torch.get_device_module(kind)
    if not hasattr(module, "get_device_name"):
        return {"type": kind, "names": [kind] * module.device_count()}
    return {"type": kind, "names": [module.get_device_name(index) for index in range(module.device_count())]}


def _recording() -> dict[str, Any]:
    import torch

    device = _device_type() or "cpu"
    activities = torch.profiler.supported_activities()  # type: ignore[no-untyped-call]
    with torch.profiler.profile(activities=sorted(activities, key=str)) as profiler:
        square = torch.ones(64, 64, device=device)
        (square @ square).sum().item()
    events = list(profiler.events() or ())
    num_operators = sum(event.device_type.name == "CPU" for event in events)
    return {
        "activities": sorted(activity.name for activity in activities),
        "num_operators": num_operators,
        "num_kernels": None if device == "cpu" else len(events) - num_operators,
    }


def _lightning() -> dict[str, Any]:
    return {"version": importlib.import_module("lightning.pytorch").__version__}


QUESTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "watchers": _watchers,
    "build": _build,
    "devices": _devices,
    "recording": _recording,
    "lightning": _lightning,
}
"""In the order of asking; each is a field of :class:`lightning_perfwatch.checkup.facts.TorchFacts`."""
