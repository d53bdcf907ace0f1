"""The settings of a run that its speed depends on, as flat hyperparameters that loggers take.

Owns their names. Knows no logger.
"""

from __future__ import annotations

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.wording import clean

PREFIX = "perfwatch/"


def settings(report: Report) -> dict[str, str | int | bool]:
    """The run's settings by names that start with ``perfwatch/``; what is not known is left out."""
    run, loader = report.run, report.loader
    known: dict[str, str | int | bool | None] = {}
    if loader is not None:
        known |= {
            "batch_size": loader.batch_size,
            "num_workers": loader.num_workers,
            "persistent_workers": loader.persistent_workers,
            "pin_memory": loader.pin_memory,
            "prefetch_factor": loader.prefetch_factor,
        }
    if run is not None:
        known |= {
            "precision": run.precision,
            "device": run.device_name or run.device_type,
            "world_size": run.world_size,
            "strategy": run.strategy,
            "accumulate_grad_batches": run.accumulate_grad_batches,
            "compiled": run.compiled,
            "optimizers": ", ".join(run.optimizers) or None,
            "model": run.model,
            "num_parameters": run.num_parameters,
            "num_threads": run.num_threads,
            "torch": run.torch_version,
        }
    return {
        PREFIX + name: clean(value) if isinstance(value, str) else value
        for name, value in known.items()
        if value is not None
    }
