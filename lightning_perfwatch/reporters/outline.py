"""The outline: what a report says, in words and in order, before it is laid out.

Owns the choice and the wording of the contents, so that terminal, Markdown and page can't disagree. Knows no
rule by name and nothing of layout. Every text in an outline is one clean line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lightning_perfwatch.finding import Finding
from lightning_perfwatch.measurements import BY_SCHEDULE, RankSummary, RunInfo, Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.own_cost import own_cost
from lightning_perfwatch.reporters.speed import nonpadding_name, outside, rate, trained_on
from lightning_perfwatch.reporters.trace_facts import device_facts, host_facts
from lightning_perfwatch.reporters.wording import (
    NOT_MEASURED,
    Fact,
    amount,
    clean,
    duration,
    durations,
    label,
    large,
    percent,
    utilisation,
)
from lightning_perfwatch.run_directory import RunDirectory

NOTHING_FOUND = "No bottleneck found."


@dataclass(frozen=True)
class Part:
    """One part of a whole; ``share`` is 0..1 and for drawing only."""

    name: str
    duration: str
    percent: str
    share: float


@dataclass(frozen=True)
class Card:
    """A finding in words; ``place`` is None when it is not known."""

    rule: str
    severity: str
    cost: str
    summary: str
    advice: str
    place: str | None


@dataclass(frozen=True)
class Outline:
    """The contents of a report; an empty part has nothing to say and is left out.

    ``step`` are the parts of the mean step, ``step_total`` is the step. ``devices`` are host and devices in the
    profiled window. ``skipped`` has the rules by reason.
    """

    headline: str
    speed: tuple[Fact, ...]
    step: tuple[Part, ...]
    step_total: Part | None
    outside: str | None
    devices: tuple[Fact, ...]
    operations: tuple[Part, ...]
    findings: tuple[Card, ...]
    verdict: str | None
    skipped: tuple[tuple[str, tuple[str, ...]], ...]
    ranks: tuple[Fact, ...]
    overhead: str | None
    notes: tuple[str, ...]
    files: tuple[Fact, ...]


def outline(report: Report) -> Outline:
    """What ``report`` says, in words."""
    step_s = sum(phase.s_per_step for phase in report.phases.values())
    in_words = durations([phase.s_per_step for phase in report.phases.values()], step_s)
    parts = [
        Part(label(name), words, percent(phase.share), phase.share)
        for (name, phase), words in zip(report.phases.items(), in_words, strict=True)
    ]
    return Outline(
        headline=_headline(report),
        speed=tuple(_speed(report)),
        step=tuple(parts),
        step_total=Part("step", durations([step_s], step_s)[0], percent(1.0), 1.0) if parts else None,
        outside=outside(report.wall_s),
        devices=(*host_facts(report.host_steps), *device_facts(report.devices, report.device_steps)),
        operations=tuple(
            Part(clean(op.name), duration(op.self_s), percent(op.share), op.share) for op in report.top_ops
        ),
        findings=tuple(_card(finding, len(report.ranks) > 1) for finding in report.findings),
        verdict=_verdict(report),
        skipped=_skipped(report.skipped),
        ranks=tuple(_rank(rank) for rank in report.ranks) if len(report.ranks) > 1 else (),
        overhead=own_cost(report.overhead, report.throughput.step_time_s),
        notes=tuple(clean(note) for note in report.notes if clean(note)),
        files=tuple(_files(report)),
    )


def _headline(report: Report) -> str:
    step_time = report.throughput.step_time_s
    measured = f"{step_time.num_steps} steps measured" if step_time else None
    if report.run is None:
        return ", ".join(part for part in (_traces_alone(report.ranks), measured) if part)
    parts = [*_run(report.run), measured or "no steady step measured"]
    return clean(", ".join(parts))


def _traces_alone(ranks: tuple[RankSummary, ...]) -> str:
    if len(ranks) < 2:
        return "a trace alone, the run is not known"
    return f"{len(ranks)} traces alone, rank {ranks[0].rank} in detail, the run is not known"


def _run(run: RunInfo) -> Iterable[str]:
    size = f" ({large(run.num_parameters)} parameters)" if run.num_parameters is not None else ""
    yield f"{run.model or 'model'}{size} on {run.device_type}"
    if run.device_name and run.device_name != run.device_type:
        yield run.device_name
    if run.precision:
        yield f"precision {run.precision}"
    if run.world_size > 1:
        yield f"{run.world_size} ranks"


def _speed(report: Report) -> Iterable[Fact]:
    speed = report.throughput
    if report.run is not None or report.counted is not None:
        spreads = speed.intervals
        yield Fact("tokens/s", rate(speed.tokens_per_s, speed.tokens_per_s_rank, spreads.get("tokens_per_s")))
        if speed.nonpadding_tokens_per_s not in (None, speed.tokens_per_s):
            spread = spreads.get("nonpadding_tokens_per_s")
            yield Fact(nonpadding_name(report.counted), rate(speed.nonpadding_tokens_per_s, None, spread))
        yield Fact("samples/s", rate(speed.samples_per_s, speed.samples_per_s_rank, spreads.get("samples_per_s")))
        yield Fact("steps/s", rate(speed.steps_per_s, None, spreads.get("steps_per_s")))
        if speed.step_time_s is None:
            yield Fact("step time", NOT_MEASURED)
    if speed.step_time_s is not None:
        p50, p95 = duration(speed.step_time_s.p50), duration(speed.step_time_s.p95)
        yield Fact("step time", f"p50 {p50}, p95 {p95}")
    yield from (Fact(name, value) for name, value in trained_on(report.counted))
    flops_used = utilisation(speed.model_tflops_per_s, speed.mfu, report.flops)
    if flops_used is not None:
        yield Fact("model FLOPs", flops_used)
    if report.run is not None and report.run.device_is_asynchronous and report.counted is not None:
        times = report.counted.num_synchronizations
        yield Fact("waits for the device", f"{amount(times)} by PerfWatch, {report.counted.sync_policy}")
    if report.window_s is not None:
        yield Fact("profiled window", duration(report.window_s) + _window_steps(report))
    on_demand = [window for window in report.windows if window.opened_by != BY_SCHEDULE]
    if on_demand:
        yield Fact("opened on demand", clean("; ".join(map(_opened, on_demand))))


def _opened(window: Window) -> str:
    """A window that the schedule did not have, and why it was opened."""
    rank = f" of rank {window.rank}" if window.rank else ""
    return f"{window.num_steps} steps from step {window.first_step} on{rank} ({window.opened_by})"


def _window_steps(report: Report) -> str:
    """Which steps the window holds that the trace's figures are of, if that is known."""
    read = [window for window in report.windows if window.trace is not None]
    if not read:
        return f", {len(report.host_steps)} steps" if len(report.host_steps) > 1 else ""
    window = min(read, key=lambda window: (window.rank, window.partial, -window.first_step))
    return f", {window.num_steps} steps from step {window.first_step} on"


def _card(finding: Finding, several_ranks: bool) -> Card:
    where = finding.where
    place = [str(where)] if str(where) else []
    if several_ranks and where.rank is not None:
        place.append(f"rank {where.rank}")
    return Card(
        rule=clean(finding.rule),
        severity=finding.severity.value,
        cost=_cost(finding),
        summary=clean(finding.summary),
        advice=clean(finding.advice),
        place=clean(" · ".join(place)) or None,
    )


_BOUND_WORDS = {"upper bound": "up to", "estimate": "about", "lower bound": "at least"}


def _cost(finding: Finding) -> str:
    if finding.share is None:
        return f"cost {NOT_MEASURED}"
    cost = f"{percent(finding.share)} of the {finding.share_of}"
    gain = finding.gain
    return cost if gain is None or gain < 1.05 else f"{cost}, {_BOUND_WORDS[finding.share_is]} {gain:,.1f}x faster"


def _verdict(report: Report) -> str | None:
    """What to say in place of findings; a run that no rule could judge is not called healthy."""
    if report.findings:
        return None
    return f"{NOTHING_FOUND} Some rules did not judge, see below." if report.skipped else NOTHING_FOUND


def _skipped(skipped: dict[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for rule, reason in skipped.items():
        by_reason[clean(reason)].append(clean(rule))
    return tuple((reason, tuple(rules)) for reason, rules in by_reason.items())


def _rank(rank: RankSummary) -> Fact:
    said = [rank.process] if rank.process else []
    if rank.trace is None or rank.tokens_per_s is not None:
        said.append(f"tokens/s {NOT_MEASURED if rank.tokens_per_s is None else amount(rank.tokens_per_s)}")
    if rank.samples_per_s is not None:
        said.append(f"samples/s {amount(rank.samples_per_s)}")
    if rank.step_time_s is not None:
        said.append(f"step {duration(rank.step_time_s)}")
    if rank.window_s is not None:
        said.append(f"window {duration(rank.window_s)}")
    if rank.busy_share is not None:
        said.append(f"busy {percent(rank.busy_share)}")
    if rank.communication_share:
        exposed = percent(rank.exposed_communication_share or 0.0)
        said.append(f"communication {percent(rank.communication_share)}, exposed {exposed}")
    if rank.data_wait_share is not None:
        said.append(f"data wait {percent(rank.data_wait_share)}")
    return Fact(f"rank {rank.rank}", clean(", ".join(said)))


def _files(report: Report) -> Iterable[Fact]:
    if report.run is not None or report.windows:
        yield Fact("trace", clean(_trace(report.windows, report.directory)))
    elif report.source is not None:
        yield Fact("trace", clean(report.source))
    if report.directory is not None:
        directory = RunDirectory(Path(report.directory))
        for name, path in (
            ("report", directory.report_file),
            ("page", directory.page_file),
            ("evidence", directory.evidence_file),
        ):
            yield Fact(name, clean(str(path)))


def _trace(windows: tuple[Window, ...], directory: str | None) -> str:
    stored = [window for window in windows if window.trace]
    if not stored:
        reasons = [window.reason for window in windows if window.reason]
        return f"none: {reasons[-1] if reasons else 'no window was profiled'}"
    last = stored[-1]
    path = str(Path(directory or "", str(last.trace)))
    said = [f"{last.num_steps} of {last.planned_steps} steps"] if last.partial else []
    said += [last.reason] if last.reason else []
    said += [f"and {len(stored) - 1} earlier"] if len(stored) > 1 else []
    return f"{path} ({'; '.join(said)})" if said else path
