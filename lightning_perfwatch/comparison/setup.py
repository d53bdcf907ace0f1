"""What two runs were set up with, and what of it makes their figures no measure of each other.

Owns the names of the settings and which of them matter. Knows nothing of speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightning_perfwatch.measurements import LoaderInfo, RunInfo
from lightning_perfwatch.rates import judged, total
from lightning_perfwatch.report import Report
from lightning_perfwatch.settings import Settings

Value = str | int | float | bool | None
"""A setting's value; None where the run has no such setting or does not tell."""

_COUNTED = ("samples per batch", "tokens per batch", "tokens per sample")
_VARYING = 0.02  # the mean size of padded batches differs a little from run to run


SIZES = ("batch size", "samples per batch", "tokens per batch", "tokens per sample")
"""With another one of these a step is another amount of work."""


@dataclass(frozen=True)
class Difference:
    """A setting that differs.

    ``doubt`` says in one clause why the figures are no measure of each other then, None if they are. With an
    ``is_obstacle`` it is not the same work on the same machine: nothing can be judged by a baseline of the other.
    """

    setting: str
    before: Value
    after: Value
    doubt: str | None = None
    is_obstacle: bool = False


_OBSTACLES = {
    "device type": "it is another kind of device",
    "device": "it is another device",
    "ranks": "another number of processes trains together",
    "model": "it is another model",
    "parameters": "it is a model of another size",
}
_DOUBTS = {
    "batch size": "steps are not of the same size",
    "samples per batch": "steps are not of the same size",
    "tokens per batch": "steps are not of the same size",
    "tokens per sample": "samples are not of the same length",
    "precision": "they compute in other numbers",
    "accumulation": "the optimizer steps at another rhythm",
    "CPUs": "the machine, or what the run may use of it, is another",
    "torch": "the versions have a speed of their own",
    "lightning": "the versions have a speed of their own",
    "python": "the versions have a speed of their own",
}


def differences(before: Report, after: Report) -> tuple[Difference, ...]:
    """The settings that are not the same, those that raise doubts first; what one report does not tell is left out."""
    sides = [_sections(report) for report in (before, after)]
    found = [Difference("kind of report", *kinds, "a trace has no run around it", True) for kinds in _kinds(sides)]
    for first, second in zip(*sides, strict=True):
        for name in {**first, **second} if first and second else ():
            if not _are_alike(name, first.get(name), second.get(name)):
                found.append(_difference(name, first.get(name), second.get(name), before))
    return in_order(found)


def in_order(found: Iterable[Difference]) -> tuple[Difference, ...]:
    """Those that raise doubts first, and of these the obstacles."""
    return tuple(sorted(found, key=lambda one: (one.doubt is None, not one.is_obstacle)))


def _kinds(sides: list[tuple[dict[str, Value], ...]]) -> Iterable[tuple[str, str]]:
    kinds = ["a run" if side[0] else "a trace alone" for side in sides]
    if kinds[0] != kinds[1]:
        yield kinds[0], kinds[1]


def _are_alike(name: str, first: Value, second: Value) -> bool:
    if name in _COUNTED:
        if first is None or second is None:
            return True  # counted in one of them only
        return abs(float(first) - float(second)) <= _VARYING * max(float(first), float(second))
    return first == second


def _difference(name: str, first: Value, second: Value, before: Report) -> Difference:
    known = first is not None and second is not None
    on_cpus = before.run is not None and before.run.device_type == "cpu"
    is_obstacle = known and (name in _OBSTACLES or (name == "CPUs" and on_cpus))
    doubt = (_OBSTACLES.get(name) or _DOUBTS.get(name)) if known else None
    return Difference(name, first, second, doubt, is_obstacle)


def _sections(report: Report) -> tuple[dict[str, Value], ...]:
    """What is known by section; one that is not known at all is empty."""
    return (
        {} if report.run is None else _of_run(report.run),
        {} if report.loader is None else _of_loader(report.loader),
        _of_batches(report),
        {} if report.settings is None else _of_torch(report.settings),
    )


def _of_run(run: RunInfo) -> dict[str, Value]:
    return {
        "device type": run.device_type,
        "device": run.device_name,
        "ranks": run.world_size,
        "model": run.model,
        "parameters": run.num_parameters,
        "precision": run.precision,
        "accumulation": run.accumulate_grad_batches,
        "CPUs": run.num_cpus,
        "threads": run.num_threads,
        "strategy": run.strategy,
        "optimizers": ", ".join(run.optimizers) or None,
        "torch.compile": run.compiled,
        "torch": run.torch_version,
        "lightning": run.lightning_version,
        "python": run.python_version,
    }


def _of_loader(loader: LoaderInfo) -> dict[str, Value]:
    return {
        "batch size": loader.batch_size,
        "loader": loader.kind,
        "num_workers": loader.num_workers,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": loader.pin_memory,
        "prefetch_factor": loader.prefetch_factor,
        "dataset": loader.dataset,
        "collate_fn": loader.collate,
    }


def _of_batches(report: Report) -> dict[str, Value]:
    """How large the mean batch of one process was, as it was counted; samples where the loader does not tell."""
    intervals = [] if report.counted is None else judged(report.counted.intervals)
    num_steps = sum(interval.num_steps for interval in intervals)
    if num_steps <= 0:
        return {}
    samples, tokens = (total([getattr(interval, name) for interval in intervals]) for name in ("samples", "tokens"))
    told_by_loader = report.loader is not None and report.loader.batch_size is not None
    sizes: dict[str, Value] = {}
    if samples is not None and not told_by_loader:
        sizes["samples per batch"] = round(samples / num_steps, 1)
    if tokens is not None:
        sizes["tokens per sample" if samples else "tokens per batch"] = round(tokens / (samples or num_steps), 1)
    return sizes


def _of_torch(settings: Settings) -> dict[str, Value]:
    backends = settings.sdp_backends
    return {
        "float32_matmul_precision": settings.float32_matmul_precision,
        "TF32 in products": settings.allow_tf32_matmul,
        "TF32 in cuDNN": settings.allow_tf32_cudnn,
        "cudnn.benchmark": settings.cudnn_benchmark,
        "cudnn.deterministic": settings.cudnn_deterministic,
        "attention backends": None if backends is None else ", ".join(backends) or "none",
        "autocast": settings.autocast_dtype,
        "dropout": _dropout(settings),
        "channels_last": settings.channels_last,
    }


def _dropout(settings: Settings) -> str:
    if not settings.num_dropouts:
        return "none"
    chances = sorted({layer.probability for layer in settings.dropouts})
    return f"{', '.join(f'{chance:g}' for chance in chances)} in {settings.num_dropouts} layers"
