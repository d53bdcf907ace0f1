"""A trace of which nothing else is known: its report, and its line among the traces of other ranks.

Owns what a trace alone tells of its rank. Knows nothing of processes, of other traces or of how a report looks.
"""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.excerpts import excerpts
from lightning_perfwatch.measurements import RankSummary
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.trace import Breakdown, Trace, read_trace

_RANK = re.compile(r"(?:^|[^a-z])rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)
# What torch's tensorboard_trace_handler, PerfWatch and most scripts put behind the worker's name.
_ENDING = re.compile(r"(?:\.\d{10,})?(?:\.pt)?(?:\.trace)?(?:\.json)?(?:\.gz)?$", re.IGNORECASE)


@dataclass(frozen=True)
class BareTrace:
    """What one file gives: its report, the rank that it names, and its summary under that rank (-1 for None)."""

    path: Path
    rank: int | None
    report: Report
    summary: RankSummary
    packed_timeline: bytes | None = None

    def packed(self) -> BareTrace:
        """The same with the timeline compressed: 50,000 events take 5 MB, and there may be many ranks."""
        timeline = zlib.compress(pickle.dumps(self.report.timeline), level=1)
        return replace(self, report=replace(self.report, timeline=None), packed_timeline=timeline)

    def whole_report(self) -> Report:
        """The report with its timeline."""
        if self.packed_timeline is None:
            return self.report
        return replace(self.report, timeline=pickle.loads(zlib.decompress(self.packed_timeline)))


def analyze_trace(path: Path, rules: Iterable[Rule], ignore: Iterable[str] = (), num_processes: int = 1) -> BareTrace:
    """Everything that the trace in ``path`` tells; a large one is read by up to ``num_processes`` processes.

    Raises:
        TraceError: the file gives no event; a sentence that names it and the remedy.
    """
    evidence = Evidence(trace=read_trace(path, num_processes), missing=TRACE_ALONE)
    report = Report.of(evidence, diagnose(evidence, rules, ignore), source=str(path))
    report = replace(report, excerpts=excerpts(report.findings, _written_at_s(path)))
    rank = _rank(path, evidence.trace)
    return BareTrace(path, rank, report, _summary(path, -1 if rank is None else rank, evidence.breakdown))


def _written_at_s(path: Path) -> float | None:
    """Unix time, in seconds, of the last change to the trace."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def worker_name(path: Path) -> str:
    """The part of a trace's file name that is the same for all windows of one process."""
    return _ENDING.sub("", path.name) or path.name


def _rank(path: Path, trace: Trace | None) -> int | None:
    """As the trace says, else as its file's or its folder's name says."""
    if trace is not None and trace.rank is not None:
        return trace.rank
    found = _RANK.search(path.name) or _RANK.search(path.parent.name)
    return int(found[1]) if found else None


def _summary(path: Path, rank: int, parts: Breakdown | None) -> RankSummary:
    return RankSummary(
        rank=rank,
        host=worker_name(path),
        tokens_per_s=None,
        samples_per_s=None,
        # Not the median of the host's steps: a host that runs ahead of its device leaves them too early.
        step_time_s=parts.window_s / parts.num_steps if parts and parts.num_steps else None,
        data_wait_share=parts.data_wait_share if parts else None,
        trace=str(path),
        window_s=parts.window_s if parts else None,
        busy_share=_mean_over_devices(parts, "busy_share"),
        communication_share=_mean_over_devices(parts, "communication_share"),
        exposed_communication_share=_mean_over_devices(parts, "exposed_communication_share"),
        **_spent(parts),
    )


def _spent(parts: Breakdown | None) -> dict[str, Any]:
    """What the rank's devices spend a step on, where the trace has both."""
    if parts is None or not parts.num_steps or not parts.devices:
        return {}

    def per_step_s(name: str) -> float:
        return (_mean_over_devices(parts, name) or 0.0) * parts.window_s / parts.num_steps

    own_s = {
        "data_wait": per_step_s("data_idle_share"),
        "host_stall": per_step_s("stall_idle_share"),
        "launch": per_step_s("launch_idle_share"),
        "compute": per_step_s("busy_share") - per_step_s("exposed_communication_share"),
    }
    return {"num_steps": parts.num_steps, "own_s": own_s, "waiting_s": per_step_s("exposed_communication_share")}


def _mean_over_devices(parts: Breakdown | None, name: str) -> float | None:
    shares = [getattr(device, name) for device in parts.devices] if parts else []
    known = [float(share) for share in shares if share is not None]
    return sum(known) / len(known) if known else None
