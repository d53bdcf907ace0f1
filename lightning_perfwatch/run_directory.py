"""The run directory: the seam between the training process, which fills it, and the analysis, which reads it.

Owns the names of its files and how they become a report. Knows nothing of Trainers, devices or how a report
looks.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from lightning_perfwatch import evidence as evidence_json
from lightning_perfwatch import report as report_json
from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.excerpts import excerpts
from lightning_perfwatch.measurements import Overhead, Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.stored import write_whole
from lightning_perfwatch.trace import Trace, TraceError, read_trace

TRACE_SUFFIX = ".pt.trace.json"
"""What torch-tb-profiler looks for; a compressed trace ends in ``.pt.trace.json.gz``."""

_LOADER_EVENT = re.compile(
    rb'("cat":\s*")user_annotation(",\s*"name":\s*"enumerate\(DataLoader\)#)',
)
WINDOW_REPORT_SUFFIX = ".report.json"
"""Ends the name of an earlier window's report, which begins like its trace's."""

MOST_WINDOW_REPORTS = 16
_CHUNK_BYTES = 8 << 20
_LONGEST_MATCH_BYTES = 256


class RunDirectory:
    """The directory ``path`` and the files in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def evidence_file(self) -> Path:
        """What was measured in the training process, without the traces."""
        return self.path / "evidence.json"

    @property
    def report_file(self) -> Path:
        """The finished analysis."""
        return self.path / "report.json"

    @property
    def page_file(self) -> Path:
        """The report as a page."""
        return self.path / "report.html"

    def write_evidence(self, evidence: Evidence) -> None:
        """Store ``evidence`` for the analysis. Raises OSError where the directory can't be written."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.evidence_file, evidence_json.to_json(evidence))

    def read_evidence(self) -> Evidence:
        """The stored evidence. Raises OSError or ValueError where there is none."""
        return evidence_json.from_json(self.evidence_file.read_bytes())

    def write_report(self, report: Report) -> None:
        """Store ``report``. Raises OSError where the directory can't be written."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.report_file, report_json.to_json(report).encode())

    def read_report(self) -> Report:
        """The stored report. Raises OSError or ValueError where there is none."""
        return report_json.from_json(self.report_file.read_bytes())

    def window_report_file(self, trace: str) -> Path:
        """Where the report of the window with this ``trace`` is kept once another window's has taken its place."""
        name = Path(trace).name.removesuffix(".gz").removesuffix(TRACE_SUFFIX)
        return self.path / (name + WINDOW_REPORT_SUFFIX)

    def _keep_earlier(self, report: Report) -> None:
        """Before ``report`` is stored: keep the one that lies there, if it shows another window of the same fit."""
        try:
            content = self.report_file.read_bytes()
            shown = report_json.from_json(content).trace
            traces = {window.trace.removesuffix(".gz") for window in report.windows if window.trace is not None}
            if shown is None or shown.removesuffix(".gz") not in traces - {str(report.trace).removesuffix(".gz")}:
                return
            write_whole(self.window_report_file(shown), content)
            kept = sorted(self.path.glob(f"*{WINDOW_REPORT_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
            for path in kept[:-MOST_WINDOW_REPORTS]:
                path.unlink(missing_ok=True)
        except (OSError, ValueError):
            return  # there is none, or none of this version: nothing is lost but a look back

    def write_page(self, page: str) -> None:
        """Store the report's page. Raises OSError where the directory can't be written."""
        write_whole(self.page_file, page.encode())

    def pack_traces(self, windows: Iterable[Window]) -> tuple[Window, ...]:
        """Compress the plain traces of ``windows``; the windows with the names that their files have now.

        On the way the data loader's events are given the category ``cpu_op``: torch-tb-profiler 0.4.3 drops
        those that current torch writes as ``user_annotation`` and then shows 0 ms of loading.
        """
        return tuple(self._packed(window) for window in windows)

    def _packed(self, window: Window) -> Window:
        if window.trace is None or window.trace.endswith(".gz"):
            return window
        plain, packed = self.path / window.trace, self.path / f"{window.trace}.gz"
        if not plain.exists():
            return replace(window, trace=packed.name) if packed.exists() else window
        try:
            pack_trace(plain, packed)
        except OSError:
            return window  # a full disk: the plain trace can still be read
        return replace(window, trace=packed.name)

    def remove_unfinished(self) -> None:
        """Remove what an analysis that was ended left half written."""
        with contextlib.suppress(OSError):
            for path in self.path.glob("*.part"):
                path.unlink(missing_ok=True)

    def read_trace(self, windows: Iterable[Window]) -> tuple[Trace | None, str | None, str | None]:
        """The last complete window's trace that can be read, else a partial one's.

        With it come why there is none, and the name of its file.
        """
        reason = None
        with_file = [window for window in windows if window.trace is not None]
        for window in sorted(with_file, key=lambda w: (w.partial, -w.first_step)):
            try:
                return read_trace(self.path / str(window.trace)), None, window.trace
            except (TraceError, OSError) as error:
                reason = reason or str(error)
        return None, reason, None

    def analyze(
        self,
        rules: Iterable[Rule] | None = None,
        ignore: Iterable[str] = (),
        *,
        store: bool = True,
        since_s: float | None = None,
    ) -> Report:
        """Everything in this directory as a report, stored as ``report.json`` if ``store``.

        An earlier window's report that lies there is kept beside its trace: see :meth:`window_report_file`.

        For an analysis that is part of the run ``since_s`` is the reading of ``time.perf_counter`` when this process
        began: its CPU and wall time are added to the run's overhead.

        Raises OSError or ValueError where the directory holds no evidence or can't be written.
        """
        evidence = self.read_evidence()
        evidence = replace(evidence, windows=self.pack_traces(evidence.windows))
        trace, reason, file = self.read_trace(evidence.windows)
        missing = evidence.missing if reason is None else {**evidence.missing, "trace": reason}
        evidence = replace(evidence, trace=trace, missing=missing)
        report = Report.of(evidence, diagnose(evidence, rules, ignore), directory=str(self.path))
        report = replace(report, excerpts=excerpts(report.findings, self._begun_at_s(evidence)), trace=file)
        if since_s is not None and report.overhead is not None:
            report = replace(report, overhead=_with_this_process(report.overhead, since_s))
        if store:
            self._keep_earlier(report)
            self.write_report(report)
        return report

    def _begun_at_s(self, evidence: Evidence) -> float:
        """Unix time, in seconds, at which the fit was set up, so that its code was as it ran."""
        return self.evidence_file.stat().st_mtime - sum((evidence.wall_s or {}).values())


def _with_this_process(overhead: Overhead, since_s: float) -> Overhead:
    return replace(
        overhead,
        analysis_cpu_s=(overhead.analysis_cpu_s or 0.0) + time.process_time(),
        analysis_wall_s=(overhead.analysis_wall_s or 0.0) + time.perf_counter() - since_s,
    )


def pack_trace(plain: Path, packed: Path) -> None:
    """Compress ``plain`` into ``packed`` in bounded memory and remove it; a failure leaves it as it was."""
    unfinished = packed.with_name(packed.name + ".part")
    try:
        with plain.open("rb") as source, gzip.open(unfinished, "wb", compresslevel=5) as target:
            target.writelines(_with_visible_loader(iter(lambda: source.read(_CHUNK_BYTES), b"")))
        unfinished.replace(packed)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    plain.unlink()


def _with_visible_loader(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks with the loader's events as operators; a match may lie across two chunks."""
    rest = b""
    for chunk in chunks:
        text = _LOADER_EVENT.sub(rb"\1cpu_op\2", rest + chunk)
        rest = text[-_LONGEST_MATCH_BYTES:]
        yield text[: len(text) - len(rest)]
    yield rest
