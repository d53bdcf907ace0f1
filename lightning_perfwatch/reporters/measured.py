"""How a report's figures were measured, and on what, in words.

Owns the wording of circumstances. Knows no layout and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightning_perfwatch.measurements import RunInfo, Window
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.wording import Fact, amount, clean, duration

_PADDING = {
    "attention_mask": "told from padding by the attention mask",
    "cu_seqlens": "told from padding by cu_seqlens",
    "labels": "those that have a label",
}


def measured(report: Report) -> Iterable[Fact]:
    """Clocks, windows, what was counted, software and settings, as far as they are known."""
    facts = [*_steps(report), *_windows(report.windows), *_viewer(report), *_counting(report)]
    if report.run is not None:
        facts += _circumstances(report.run)
    yield from (Fact(fact.name, clean(fact.value)) for fact in facts)


def _steps(report: Report) -> Iterable[Fact]:
    step_time = report.throughput.step_time_s
    if step_time is None or report.run is None:
        return
    clock = "events on the device's clock" if report.run.device_is_asynchronous else "the host's clock"
    yield Fact(
        "steps", f"{amount(step_time.num_steps)} steady ones, by {clock}; first, audited and profiled ones apart"
    )


def _windows(windows: tuple[Window, ...]) -> Iterable[Fact]:
    for number, window in enumerate(windows, start=1):
        cut = f"{window.num_steps} of {window.planned_steps}" if window.partial else str(window.num_steps)
        said = [f"{cut} steps from step {window.first_step} on"]
        if window.rank:
            said.append(f"rank {window.rank}")
        if window.size_mb is not None:
            said.append(f"{window.size_mb:.3g} MB")
        if window.export_s is not None:
            said.append(f"{duration(window.export_s)} to write")
        if window.reason:
            said.append(window.reason)
        yield Fact(f"window {number}" if len(windows) > 1 else "profiled window", ", ".join(said))


def _viewer(report: Report) -> Iterable[Fact]:
    if report.source is not None or any(window.trace for window in report.windows):
        yield Fact("event by event", 'the trace opens in https://ui.perfetto.dev as it is, by "Open trace file"')


def _counting(report: Report) -> Iterable[Fact]:
    counted = report.counted
    if counted is not None and counted.intervals:
        yield Fact("rates", f"over {amount(len(counted.intervals))} intervals of training alone")
    if counted is not None and counted.nonpadding_by is not None:
        yield Fact("tokens that count", _PADDING.get(counted.nonpadding_by, counted.nonpadding_by))
    if counted is not None and counted.num_synchronizations:
        yield Fact("waits for the device", f"{amount(counted.num_synchronizations)}, {counted.sync_policy}")
    if report.flops is not None and report.flops.source is not None:
        sources = {"counted": "counted from the operators of one step", "user": "as given to PerfWatch"}
        yield Fact("FLOPs of the model", sources.get(report.flops.source, report.flops.source))
    if report.flops is not None and report.flops.reason is not None:
        yield Fact("not known", report.flops.reason)


def _circumstances(run: RunInfo) -> Iterable[Fact]:
    threads = f", {run.num_threads} threads per operator" if run.num_threads is not None else ""
    yield Fact("CPUs for this process", f"{run.num_cpus}{threads}")
    settings = [
        run.strategy and f"strategy {run.strategy}",
        run.optimizers and ", ".join(run.optimizers),
        run.accumulate_grad_batches > 1 and f"gradients of {run.accumulate_grad_batches} batches accumulated",
        run.compiled and "compiled",
    ]
    if any(settings):
        yield Fact("settings", ", ".join(str(setting) for setting in settings if setting))
    versions = (("Python", run.python_version), ("torch", run.torch_version), ("Lightning", run.lightning_version))
    if any(version for _, version in versions):
        yield Fact("software", ", ".join(f"{name} {version}" for name, version in versions if version))
