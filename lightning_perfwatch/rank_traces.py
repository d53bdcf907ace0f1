"""The traces of several ranks: read by a process per core, told in one report.

Owns which files are read, who reads them, and the order of the ranks. Knows nothing of what a trace holds or of how
a report looks.
"""

from __future__ import annotations

import itertools
import queue
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from lightning_perfwatch.bare_trace import BareTrace, worker_name
from lightning_perfwatch.diagnosis import diagnose, of_other_ranks, settle
from lightning_perfwatch.early_readers import EarlyReaders
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding
from lightning_perfwatch.measurements import RankSummary
from lightning_perfwatch.processes import num_usable_cpus
from lightning_perfwatch.reading_process import ReadingProcess, Unreadable
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.run_directory import TRACE_SUFFIX, RunDirectory


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The traces that ``paths`` stand for: files as they are, and of each folder the traces in it.

    Raises:
        ValueError: a folder holds no trace, or is a run directory, which is analysed by itself.
    """
    files = [found for path in paths for found in (_traces_in(path) if path.is_dir() else [path])]
    return list(dict.fromkeys(files))


def _traces_in(folder: Path) -> list[Path]:
    if RunDirectory(folder).evidence_file.exists():
        raise ValueError(f"{folder} is a run directory: analyse it alone.")
    names = sorted(path for path in folder.iterdir() if path.is_file())
    traces = [path for path in names if path.name.endswith((TRACE_SUFFIX, f"{TRACE_SUFFIX}.gz"))]
    inner = folder / "perfwatch"
    hint = f"; did you mean {inner}?" if RunDirectory(inner).evidence_file.exists() else "."
    if not traces and hint == ".":
        traces = [path for path in names if path.name.endswith((".json", ".json.gz"))]
    if not traces:
        raise ValueError(f"{folder} holds neither evidence.json nor a *{TRACE_SUFFIX}[.gz] file{hint}")
    return traces


class RankTraces:
    """The traces in ``paths``, to be judged by ``rules`` without those whose id is in ``ignore``.

    Of ``early`` the children are taken that were started for this.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        rules: Sequence[Rule],
        ignore: Sequence[str] = (),
        early: EarlyReaders | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self._rules = tuple(rules)
        self._ignore = tuple(ignore)
        num_readers = max(1, min(num_usable_cpus(), len(paths)))
        self._readers = [
            ReadingProcess(rules, ignore, None if early is None else early.take()) for _ in range(num_readers)
        ]
        self._idle: queue.SimpleQueue[ReadingProcess] = queue.SimpleQueue()
        self._answers: dict[Path, Future[BareTrace | Unreadable]] = {}

    @property
    def reader_pids(self) -> list[int]:
        """The processes that are reading now."""
        return [reader.pid for reader in self._readers if reader.pid is not None]

    @property
    def num_done(self) -> int:
        """Files that have been read, or given up."""
        return sum(answer.done() for answer in list(self._answers.values()))

    def report(self) -> Report:
        """The first rank's report with the summary of every rank, and what is worse on others than on the first.

        Raises:
            ValueError: none of the files can be read.
        """
        answers = self._read_all()
        traces = [answer for answer in answers if isinstance(answer, BareTrace)]
        unreadable = [answer.reason for answer in answers if isinstance(answer, Unreadable)]
        if not traces:
            raise ValueError(f"None of the {len(self.paths)} traces can be read. The first: {unreadable[0]}")
        return self._merged(traces, unreadable)

    def _read_all(self) -> list[BareTrace | Unreadable]:
        """What each file gave, in the order of ``paths``; the largest is read first. No process is left behind."""
        for reader in self._readers:
            self._idle.put(reader)
        pool = ThreadPoolExecutor(len(self._readers))
        try:
            largest_first = sorted(self.paths, key=_size_bytes, reverse=True)
            for path in largest_first:
                self._answers[path] = pool.submit(self._read, path)
            return [self._answers[path].result() for path in self.paths]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for reader in self._readers:
                reader.end()

    def _merged(self, traces: Sequence[BareTrace], unreadable: Sequence[str]) -> Report:
        ordered = _in_order(traces)
        first = ordered[0][1].whole_report()
        ranks = tuple(summary for summary, _ in ordered)
        together = diagnose(Evidence(ranks=ranks, missing=TRACE_ALONE), self._rules, self._ignore)
        told = settle((*first.findings, *together.findings), self._rules)
        judged = {rule for rule in first.skipped if any(rule not in trace.report.skipped for _, trace in ordered)}
        others: dict[int, list[Finding]] = {}
        for summary, trace in ordered[1:]:
            others.setdefault(summary.rank, []).extend(trace.report.findings)
        findings = of_other_ranks(told, others, self._rules)
        places = {found.where.code for found in findings}
        code = {place: lines for _, trace in ordered for place, lines in trace.report.excerpts.items()}
        remarks = [f"{trace.path.name}: {note}" for _, trace in ordered[1:] for note in trace.report.notes]
        return replace(
            first,
            ranks=ranks,
            findings=findings,
            excerpts={place: lines for place, lines in code.items() if place in places},
            skipped={
                rule: reason
                for rule, reason in first.skipped.items()
                if rule in together.skipped and rule not in judged
            },
            notes=(*first.notes, *remarks, *unreadable),
        )

    def _read(self, path: Path) -> BareTrace | Unreadable:
        reader = self._idle.get()
        try:
            return reader.read(path)
        finally:
            self._idle.put(reader)


def _in_order(traces: Sequence[BareTrace]) -> list[tuple[RankSummary, BareTrace]]:
    """The traces by rank; workers that name none get the numbers that are free, in the order of their names."""
    named = {trace.rank for trace in traces}
    free = (number for number in itertools.count() if number not in named)
    by_name = sorted(traces, key=lambda trace: _natural(str(trace.path)))
    given: dict[tuple[Path, str], int] = {}
    ordered = []
    for trace in by_name:
        rank = trace.rank
        if rank is None:
            worker = (trace.path.parent, worker_name(trace.path))
            rank = given[worker] if worker in given else given.setdefault(worker, next(free))
        ordered.append((replace(trace.summary, rank=rank), trace))
    return sorted(ordered, key=lambda pair: pair[0].rank)


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that puts w2 before w10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
