"""The report: everything a reporter may know, with its JSON form ``report.json``.

Owns the report's schema and how evidence and a diagnosis become figures. Never decides what is a bottleneck
and knows nothing of how a report is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from lightning_perfwatch.counts import Counted, Flops, Spread
from lightning_perfwatch.diagnosis import Diagnosis
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding
from lightning_perfwatch.measurements import (
    PHASES,
    EpochStart,
    Excerpt,
    LoaderInfo,
    Mark,
    Overhead,
    RankSummary,
    RunInfo,
    StepTimes,
    Window,
)
from lightning_perfwatch.rates import Rates
from lightning_perfwatch.resources import Resources
from lightning_perfwatch.settings import Settings
from lightning_perfwatch.stored import read_stored
from lightning_perfwatch.sync_sites import SyncSite
from lightning_perfwatch.trace import (
    DeviceBreakdown,
    DeviceStep,
    HostStep,
    OpTotal,
    Timeline,
    device_steps,
    host_steps,
    timeline,
    top_ops,
)

SCHEMA_VERSION = 1
NUM_TOP_OPS = 10
_NOISY = 1.5


@dataclass(frozen=True)
class StepTime:
    """Spread of the steady step's duration in seconds."""

    p50: float
    p95: float
    mean: float
    num_steps: int


@dataclass(frozen=True)
class Throughput:
    """Rates over the time spent on training, summed over all ranks; None where they can't be told.

    ``tokens_per_s`` counts padding too, ``nonpadding_tokens_per_s`` does not. ``tokens_per_s_rank`` is this rank's own
    part of ``tokens_per_s``. ``model_tflops_per_s`` and ``mfu`` are those of this rank's device: the model's own work
    in 1e12 FLOP/s, and its share (0..1) of the device's dense peak. ``goodput_share`` is the share (0..1) of the wall
    clock in ``wall_s`` that was spent on training steps. ``intervals`` holds, by the name of the rate, its median over
    intervals and a 95 % confidence interval for it; see :func:`~lightning_perfwatch.rates.spread`. A rate with too few
    intervals is not in it.
    """

    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    steps_per_s: float | None = None
    step_time_s: StepTime | None = None
    mfu: float | None = None
    tokens_per_s_rank: float | None = None
    samples_per_s_rank: float | None = None
    model_tflops_per_s: float | None = None
    nonpadding_tokens_per_s: float | None = None
    goodput_share: float | None = None
    intervals: dict[str, Spread] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """One part of the step: its share of the step (0..1) and mean seconds per step."""

    share: float
    s_per_step: float


@dataclass(frozen=True)
class Report:
    """A finished analysis; see :func:`to_json` for its stored form.

    ``directory`` is the run directory; a report of traces alone has ``source`` instead, the file that it shows.
    ``host_steps`` and ``device_steps`` are the single complete steps of the trace, ``timeline`` is the one of median
    length, event by event. ``excerpts`` holds the code around the places that findings name, by ``file:line``.
    ``trace`` is the file in the run directory that the trace's figures are of, None without one.
    ``loader`` and ``settings`` are how the run was set up, ``resources`` what it had of its machine, as far as that is
    known.
    """

    run: RunInfo | None = None
    throughput: Throughput = field(default_factory=Throughput)
    phases: dict[str, Phase] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    top_ops: tuple[OpTotal, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    overhead: Overhead | None = None
    ranks: tuple[RankSummary, ...] = ()
    wall_s: dict[str, float] | None = None
    syncs: tuple[SyncSite, ...] = ()
    epoch_starts: tuple[EpochStart, ...] = ()
    counted: Counted | None = None
    flops: Flops | None = None
    notes: tuple[str, ...] = ()
    window_s: float | None = None
    devices: tuple[DeviceBreakdown, ...] = ()
    host_steps: tuple[HostStep, ...] = ()
    device_steps: tuple[DeviceStep, ...] = ()
    directory: str | None = None
    source: str | None = None
    marks: tuple[Mark, ...] = ()
    timeline: Timeline | None = None
    excerpts: dict[str, Excerpt] = field(default_factory=dict)
    loader: LoaderInfo | None = None
    trace: str | None = None
    settings: Settings | None = None
    resources: Resources | None = None

    @classmethod
    def of(
        cls, evidence: Evidence, diagnosis: Diagnosis, directory: str | None = None, source: str | None = None
    ) -> Report:
        """The report of this evidence and what the rules said of it.

        ``directory`` is where its files lie, ``source`` the one trace that is all of them.
        """
        trace = evidence.trace
        parts = evidence.breakdown
        return cls(
            run=evidence.run,
            throughput=_throughput(evidence),
            phases=_phases(evidence.steps),
            windows=evidence.windows,
            top_ops=() if trace is None else tuple(top_ops(trace, n=NUM_TOP_OPS)),
            findings=diagnosis.findings,
            skipped=diagnosis.skipped,
            overhead=evidence.overhead,
            ranks=evidence.ranks,
            wall_s=evidence.wall_s,
            syncs=() if evidence.syncs is None else evidence.syncs.sites,
            epoch_starts=evidence.epoch_starts or (),
            counted=evidence.counted,
            flops=evidence.flops,
            notes=(*evidence.notes, *_noise(_step_time(evidence.steps)), *(() if trace is None else trace.left_out)),
            window_s=None if parts is None else parts.window_s,
            devices=() if parts is None else parts.devices,
            host_steps=() if trace is None else host_steps(trace),
            device_steps=() if trace is None else device_steps(trace),
            directory=directory,
            source=source,
            marks=evidence.marks or (),
            timeline=None if trace is None else timeline(trace),
            loader=evidence.loader,
            settings=evidence.settings,
            resources=evidence.resources,
        )


def to_json(report: Report) -> str:
    """``report.json``: the report's fields under their own names, with ``schema_version`` first.

    A finding carries its ``gain`` beside its ``share``. Numbers that were not measured are null. Each lane of the
    timeline stands on a line of its own, everything else is one value a line.
    """
    document = msgspec.to_builtins(replace(report, timeline=None), enc_hook=_plain)
    for stored, finding in zip(document["findings"], report.findings, strict=True):
        stored["gain"] = finding.gain
    encoded = msgspec.json.encode({"schema_version": SCHEMA_VERSION, **encodable(document)})
    text = msgspec.json.format(encoded).decode() + "\n"
    if report.timeline is None:
        return text
    # Only a field of the report itself is indented by two, and no string holds a bare line break.
    before, found, after = text.partition('\n  "timeline": null')
    assert found
    return f'{before}\n  "timeline": {_timeline_json(report.timeline)}{after}'


def _timeline_json(timeline: Timeline) -> str:
    """A line per lane: a line per number would make 50,000 events 3 MB of mostly spaces."""
    texts = (encodable(list(timeline.names)), *(replace(lane, name=encodable(lane.name)) for lane in timeline.lanes))
    names, *lanes = (msgspec.json.encode(value).decode() for value in texts)
    rest = {"step": timeline.step, "duration_us": timeline.duration_us, "num_left_out": timeline.num_left_out}
    rows = ",".join(f"\n      {lane}" for lane in lanes)
    return f'{msgspec.json.encode(rest).decode()[:-1]},\n    "names": {names},\n    "lanes": [{rows}]\n  }}'


def from_json(text: bytes | str) -> Report:
    """The report stored in ``text``.

    Raises:
        ValueError: the text is no PerfWatch report, or one of another schema version.
    """
    try:
        return read_stored(text, SCHEMA_VERSION, Report)
    except ValueError as error:
        raise ValueError(f"This is no PerfWatch report: {error}.") from error


def _plain(value: Any) -> Any:
    """A numpy number in a finding's evidence as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a report can't hold {type(value).__name__}")


def encodable(value: Any) -> Any:
    """``value``, for JSON, with a ``?`` for the lone surrogates by which Python spells a path that is no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list | tuple) else value


def _phases(steps: StepTimes | None) -> dict[str, Phase]:
    if steps is None or steps.num_steps == 0:
        return {}
    return {name: Phase(share=steps.share(name), s_per_step=steps.phase_s(name)) for name in PHASES}


def _throughput(evidence: Evidence) -> Throughput:
    measured = Throughput(step_time_s=_step_time(evidence.steps), goodput_share=_goodput_share(evidence.wall_s))
    if evidence.counted is None:
        return measured
    own = Rates.of(evidence.counted)
    of_all = own.over(evidence.ranks)
    flops_per_s = _flops_per_s(evidence.flops, own.steps_per_s)
    peak_flops_per_s = None if evidence.flops is None else evidence.flops.peak_flops_per_s
    return replace(
        measured,
        tokens_per_s=of_all.tokens_per_s,
        samples_per_s=of_all.samples_per_s,
        steps_per_s=of_all.steps_per_s,
        tokens_per_s_rank=own.tokens_per_s,
        samples_per_s_rank=own.samples_per_s,
        nonpadding_tokens_per_s=of_all.nonpadding_tokens_per_s,
        intervals=of_all.intervals,
        model_tflops_per_s=None if flops_per_s is None else flops_per_s / 1e12,
        mfu=None if flops_per_s is None or peak_flops_per_s is None else flops_per_s / peak_flops_per_s,
    )


def _flops_per_s(flops: Flops | None, batches_per_s: float | None) -> float | None:
    if flops is None or flops.flops_per_batch is None or batches_per_s is None:
        return None
    return flops.flops_per_batch * batches_per_s


def _goodput_share(wall_s: dict[str, float] | None) -> float | None:
    total_s = sum((wall_s or {}).values())
    return (wall_s or {}).get("training", 0.0) / total_s if total_s > 0 else None


def _noise(step_time: StepTime | None) -> tuple[str, ...]:
    """A remark on steps whose mean is far from their median: shares are of the mean."""
    if step_time is None or step_time.mean <= _NOISY * step_time.p50:
        return ()
    return (
        f"the step time varies: {step_time.mean * 1e3:.1f} ms on average, {step_time.p50 * 1e3:.1f} ms in the median; "
        "the shares above are of the average, so look for what stalls some steps, or for other work on the machine",
    )


def _step_time(steps: StepTimes | None) -> StepTime | None:
    if steps is None or steps.num_steps == 0:
        return None
    p50, p95 = np.percentile(steps.step_s, [50, 95])
    return StepTime(p50=float(p50), p95=float(p95), mean=steps.mean_step_s, num_steps=steps.num_steps)
