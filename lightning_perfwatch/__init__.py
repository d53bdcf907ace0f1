"""A linter for training speed: measures a PyTorch Lightning run and says what makes it slow.

Owns the public names. They are loaded when they are first used, so importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_perfwatch.callback import PerfWatch
    from lightning_perfwatch.config import PerfWatchConfig
    from lightning_perfwatch.finding import Finding, Severity, Where
    from lightning_perfwatch.live.schedule import Schedule
    from lightning_perfwatch.live.trace_options import TraceOptions
    from lightning_perfwatch.live.triggers import Triggers
    from lightning_perfwatch.report import Report
    from lightning_perfwatch.rules import Rule

__version__ = "0.1.0"

_HOMES = {
    "Finding": "finding",
    "PerfWatch": "callback",
    "PerfWatchConfig": "config",
    "Report": "report",
    "Rule": "rules",
    "Schedule": "live.schedule",
    "Severity": "finding",
    "TraceOptions": "live.trace_options",
    "Triggers": "live.triggers",
    "Where": "finding",
}

__all__ = [
    "Finding",
    "PerfWatch",
    "PerfWatchConfig",
    "Report",
    "Rule",
    "Schedule",
    "Severity",
    "TraceOptions",
    "Triggers",
    "Where",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
