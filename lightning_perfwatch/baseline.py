"""The baseline: the newest runs of a configuration, in one small JSON file that a repository or a cache can hold.

Owns the file and which runs it keeps. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from lightning_perfwatch import report as report_json
from lightning_perfwatch.comparison.speed import coarse
from lightning_perfwatch.rates import judged
from lightning_perfwatch.report import Report
from lightning_perfwatch.resources import Resources
from lightning_perfwatch.stored import read_stored, write_whole

SCHEMA_VERSION = 1
MOST_RUNS = 20
"""Of runs that are comparable with each other; the newest are kept."""
_MOST_INTERVALS = 60
_MOST_OTHERS = 100


@dataclass(frozen=True)
class _Stored:
    runs: list[dict[str, Any]]


def read_baseline(path: Path) -> tuple[Report, ...]:
    """The runs of the baseline in ``path``, oldest first.

    Raises:
        ValueError: the file is no baseline, or one of another schema version.
        OSError: it can't be read.
    """
    text = path.read_bytes()
    try:
        stored = read_stored(text, SCHEMA_VERSION, _Stored)
        return tuple(report_json.from_json(msgspec.json.encode(run)) for run in stored.runs)
    except ValueError as error:
        raise ValueError(f"{path} is no baseline of perfwatch check: {str(error).rstrip('.')}.") from error


def write_baseline(path: Path, runs: Sequence[Report]) -> None:
    """Store ``runs``, the whole file at once; its folder is made. Raises OSError where that can't be written."""
    documents = [msgspec.json.decode(report_json.to_json(run)) for run in runs]
    encoded = msgspec.json.encode({"schema_version": SCHEMA_VERSION, "runs": documents})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.format(encoded, indent=1) + b"\n")


def with_run(runs: Sequence[Report], run: Report, alike: Sequence[Report], replaces: bool) -> tuple[Report, ...]:
    """``runs`` and the essence of ``run``; ``alike`` are those of them that it is comparable with.

    Of these the newest stay with it, twenty in all, or none if it ``replaces`` them: their speed is no longer the one
    to hold. Of runs that are not comparable, such as those of another machine, the newest hundred stay.
    """
    kept = [] if replaces else list(alike)[-(MOST_RUNS - 1) :]
    others = [one for one in runs if not any(one is other for other in alike)][-_MOST_OTHERS:]
    return (*others, *kept, essence(run))


def essence(run: Report) -> Report:
    """What of a run is needed to judge others by it: speed with its intervals, settings and findings.

    Long runs have their intervals taken together, 60 at most.
    """
    counted = run.counted
    if counted is not None:
        intervals = coarse(judged(counted.intervals), _MOST_INTERVALS)
        # Which are judged is settled; a run without clean ones would lose another one the next time.
        counted = replace(counted, intervals=tuple(replace(interval, clean=True) for interval in intervals))
    return Report(
        run=run.run,
        throughput=run.throughput,
        phases=run.phases,
        findings=tuple(replace(finding, evidence={}) for finding in run.findings),
        skipped=run.skipped,
        counted=counted,
        loader=run.loader,
        settings=run.settings,
        resources=None if run.resources is None else Resources(run.resources.processors, pace=run.resources.pace),
        wall_s=run.wall_s,
        directory=run.directory,
    )
