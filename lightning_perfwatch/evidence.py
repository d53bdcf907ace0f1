"""What a rule may read: the measured run as immutable data, with its JSON form.

Owns what belongs together as evidence, and its stored form. Knows nothing of how it was measured, of rules, or of
how anything is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from lightning_perfwatch.counts import Counted, Flops
from lightning_perfwatch.interruptions import Compilation, GcPauses
from lightning_perfwatch.measurements import (
    PHASES,
    EpochStart,
    HookTime,
    LoaderInfo,
    LoadProbe,
    Mark,
    Overhead,
    Pauses,
    RankSummary,
    RunInfo,
    StepTimes,
    Window,
)
from lightning_perfwatch.resources import Resources
from lightning_perfwatch.settings import Settings
from lightning_perfwatch.stored import read_stored
from lightning_perfwatch.sync_sites import SyncSite, SyncSites
from lightning_perfwatch.trace import Breakdown, OpCosts, Trace, breakdown, op_costs

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Evidence:
    """All that is known of a run. A bare trace gives an Evidence with nothing but ``trace``.

    ``wall_s`` says where the wall clock went, in seconds, from the setup of the fit to the end of its training:
    ``setup`` (all that comes before the first step), ``sanity_check``, ``training`` (its steps), ``validation``,
    ``checkpoint``, ``epoch_start``, ``capture`` (PerfWatch's own profiler) and ``other`` (what follows the last step).
    ``marks`` are the newest of each kind, in their order.
    ``missing`` gives, for a field that is None, the reason in one clause.
    """

    run: RunInfo | None = None
    steps: StepTimes | None = None
    hooks: tuple[HookTime, ...] | None = None
    loader: LoaderInfo | None = None
    load_probe: LoadProbe | None = None
    syncs: SyncSites | None = None
    epoch_starts: tuple[EpochStart, ...] | None = None
    counted: Counted | None = None
    flops: Flops | None = None
    windows: tuple[Window, ...] = ()
    overhead: Overhead | None = None
    ranks: tuple[RankSummary, ...] = ()
    wall_s: dict[str, float] | None = None
    gc: tuple[GcPauses, ...] | None = None
    compilations: tuple[Compilation, ...] | None = None
    pauses: Pauses | None = None
    marks: tuple[Mark, ...] | None = None
    notes: tuple[str, ...] = ()
    settings: Settings | None = None
    resources: Resources | None = None
    missing: dict[str, str] = field(default_factory=dict)
    trace: Trace | None = None

    def wall_share(self, name: str) -> float | None:
        """Share (0..1) of the fit's wall clock without PerfWatch's own profiling; None where it is not measured."""
        wall_s = self.wall_s or {}
        total_s = sum(spent_s for part, spent_s in wall_s.items() if part != "capture")
        return wall_s[name] / total_s if name in wall_s and total_s > 0 else None

    @cached_property
    def breakdown(self) -> Breakdown | None:
        """Where the trace's time goes, worked out once; None without a trace."""
        return None if self.trace is None else breakdown(self.trace)

    def sync_idle_share(self, sites: Sequence[SyncSite] | None = None) -> float | None:
        """Share (0..1) of the window in which the device idles because its host waited for it; None without a trace.

        Of several devices that which idles most. With ``sites`` the part of it that these have in the time of all
        audited calls that wait for a device, but PerfWatch's own.
        """
        devices = () if self.breakdown is None else self.breakdown.devices
        idle = max((device.sync_idle_share for device in devices if device.sync_idle_share is not None), default=None)
        if idle is None or sites is None or self.syncs is None:
            return idle
        waiting = [site for site in self.syncs.sites if site.device_type != "cpu" and site.owner != "perfwatch"]
        all_s = sum(site.s_per_step for site in waiting)
        return idle * min(1.0, sum(site.s_per_step for site in sites) / all_s) if all_s > 0 else idle

    @cached_property
    def op_costs(self) -> OpCosts | None:
        """What the trace's operators cost, worked out once; None without a trace."""
        return None if self.trace is None else op_costs(self.trace)

    def why_missing(self, name: str) -> str:
        """The reason, in one clause, why the field ``name`` is None."""
        return self.missing.get(name) or _NOT_MEASURED.get(name, f"{name} was not measured")


TRACE_ALONE = dict.fromkeys(
    (
        "run",
        "steps",
        "hooks",
        "loader",
        "load_probe",
        "syncs",
        "epoch_starts",
        "counted",
        "flops",
        "overhead",
        "wall_s",
        "gc",
        "compilations",
        "pauses",
        "marks",
        "settings",
        "resources",
    ),
    "a trace alone does not tell",
)
"""What :attr:`Evidence.missing` says where there is nothing but a trace."""

_NOT_MEASURED = {
    "steps": "no steady training step was measured",
    "hooks": "the time of callbacks and hooks was not measured",
    "loader": "the training data loader's settings are not known",
    "syncs": "no step was audited for calls that wait for the device",
    "trace": "no trace was recorded",
    "wall_s": "the wall clock outside of steps was not measured",
    "gc": "no steady step was watched for garbage collections",
    "compilations": "what torch.compile compiled was not watched",
    "pauses": "validations and checkpoints were not counted",
    "marks": "windows, validations and checkpoints were not placed in the run",
    "epoch_starts": "the start of epochs was not measured",
    "run": "the run's settings are not known",
    "ranks": "one process tells nothing of the others",
    "resources": "what the run has of its machine was not read",
    "settings": "the settings of torch and of the optimizers are not known",
}


def to_json(evidence: Evidence) -> bytes:
    """``evidence.json`` without the trace, which has a file of its own."""
    stored = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name != "trace"}
    return msgspec.json.format(msgspec.json.encode({"schema_version": SCHEMA_VERSION, **stored}, enc_hook=_plain))


def from_json(text: bytes) -> Evidence:
    """The evidence in ``text``, with no trace.

    Raises:
        ValueError: the text is no evidence of this schema version.
    """
    try:
        return read_stored(text, SCHEMA_VERSION, Evidence, _array)
    except ValueError as error:
        raise ValueError(f"This is no evidence of a PerfWatch run: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"evidence can't hold {type(value).__name__}")


def _array(kind: type[Any], value: Any) -> Any:
    if getattr(kind, "__origin__", kind) is np.ndarray:
        return np.asarray(value, dtype=np.float64).reshape(-1, len(PHASES))
    raise TypeError(f"evidence can't hold {kind!r}")
