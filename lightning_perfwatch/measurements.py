"""The single measurements of a run, as immutable data.

Owns their shapes and units. Knows nothing of how they are taken or judged. Not measured is None, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.counts import Spread

Seconds = npt.NDArray[np.float64]

PHASES = ("data_wait", "transfer", "forward", "backward", "optimizer", "callbacks", "other")
"""The parts of a training step, in the order in which they happen; together they are the whole step."""


@dataclass(frozen=True)
class RunInfo:
    """The circumstances of a run. ``num_cpus`` is what this process may use, not what the machine has.

    ``num_threads`` are those that one operator may use on the CPU.
    """

    device_type: str
    device_name: str
    device_is_asynchronous: bool
    num_cpus: int
    world_size: int = 1
    rank: int = 0
    model: str | None = None
    num_parameters: int | None = None
    optimizers: tuple[str, ...] = ()
    precision: str | None = None
    strategy: str | None = None
    accumulate_grad_batches: int = 1
    compiled: bool = False
    torch_version: str | None = None
    lightning_version: str | None = None
    python_version: str | None = None
    num_threads: int | None = None


@dataclass(frozen=True)
class LoaderInfo:
    """The training data loader's settings; None where the loader has no such setting."""

    kind: str
    num_workers: int | None = None
    batch_size: int | None = None
    persistent_workers: bool | None = None
    pin_memory: bool | None = None
    prefetch_factor: int | None = None
    dataset: str | None = None
    collate: str | None = None
    sized: bool | None = None
    dataset_file: str | None = None
    dataset_line: int | None = None


@dataclass(frozen=True)
class LoadProbe:
    """One batch loaded in the training process, split into fetching samples and collating them.

    ``cpu_s`` is what of both the thread was computing; the rest it waited for a disk, a network or a lock.
    ``collate_file``/``collate_line`` and ``dataset_file``/``dataset_line`` say where that code is defined.
    """

    fetch_s: float
    collate_s: float
    dataset_file: str | None = None
    dataset_line: int | None = None
    collate_file: str | None = None
    collate_line: int | None = None
    cpu_s: float | None = None


@dataclass(frozen=True)
class StepTimes:
    """Exclusive times of the steady training steps: no first steps, no profiled steps, no start of an epoch.

    ``host_s`` has the shape (steps, phases) in seconds with columns as in :data:`PHASES`; a row adds up to its step.
    ``device_s`` has the same shape on the device's clock, or is None where the device is not asynchronous.
    """

    host_s: Seconds
    device_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.device_s is not None and self.device_s.shape != self.host_s.shape:
            raise ValueError(f"device_s has the shape {self.device_s.shape} and host_s {self.host_s.shape}")

    @property
    def num_steps(self) -> int:
        """Number of steady steps."""
        return int(self.host_s.shape[0])

    @property
    def exposed_s(self) -> Seconds:
        """What the user waits for: the device's clock where there is one, else the host's; shape (steps, phases)."""
        return self.host_s if self.device_s is None else self.device_s

    @property
    def step_s(self) -> Seconds:
        """Duration of every step in seconds, shape (steps,)."""
        return np.asarray(self.exposed_s.sum(axis=1))

    @property
    def computing_s(self) -> Seconds:
        """What each step takes on the host's clock without its wait for data and its callbacks, in seconds."""
        others = [PHASES.index("data_wait"), PHASES.index("callbacks")]
        return np.asarray(self.host_s.sum(axis=1) - self.host_s[:, others].sum(axis=1))

    @property
    def mean_step_s(self) -> float:
        """Mean duration of a step in seconds."""
        return float(self.step_s.mean())

    def phase_s(self, phase: str) -> float:
        """Mean seconds a step spends in ``phase``."""
        return float(self.exposed_s[:, PHASES.index(phase)].mean())

    def host_phase_s(self, phase: str) -> float:
        """Mean seconds a step spends in ``phase`` on the host's clock."""
        return float(self.host_s[:, PHASES.index(phase)].mean())

    def share(self, phase: str) -> float:
        """Share of the step time (0..1) spent in ``phase``; 0.0 for steps of no length."""
        return self.phase_s(phase) / self.mean_step_s if self.mean_step_s > 0 else 0.0


@dataclass(frozen=True)
class HookTime:
    """Mean exclusive host time that one callback or hook takes of a steady step, and where it is defined."""

    name: str
    hook: str
    s_per_step: float
    max_s: float
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class EpochStart:
    """What the start of an epoch cost before its first batch was there, in seconds."""

    epoch: int
    iterator_s: float
    first_wait_s: float


@dataclass(frozen=True)
class Pauses:
    """How often training stopped for something else, and how often it is set to.

    ``val_check_interval`` counts training batches; None where validation comes once in some epochs only.
    ``checkpoint_every_n_steps`` counts optimizer steps; None where checkpoints follow epochs or validation.
    """

    num_validations: int
    num_checkpoints: int
    val_check_interval: int | None = None
    checkpoint_every_n_steps: int | None = None


BY_SCHEDULE = "schedule"
"""The reason of a window that the schedule has."""

REQUESTED = "requested"
"""How the reason of a window begins that somebody asked for."""


@dataclass(frozen=True)
class Window:
    """One profiled window: ``trace`` is the file's name in the run directory, None when no file came of it.

    ``opened_by`` says why there is a window: the schedule has it, somebody asked for it, or the step drifted.
    """

    first_step: int
    num_steps: int
    planned_steps: int
    trace: str | None = None
    partial: bool = False
    reason: str | None = None
    stop_s: float | None = None
    export_s: float | None = None
    size_mb: float | None = None
    rank: int = 0
    opened_by: str = BY_SCHEDULE


@dataclass(frozen=True)
class Mark:
    """Something that lies in the run beside its steps: a profiled ``window``, a ``validation`` or a ``checkpoint``.

    ``step`` is the first training step at or after its begin, ``begin_s`` seconds of wall clock since the first step
    began.
    """

    kind: str
    step: int
    begin_s: float
    duration_s: float


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source file around a place; the first of ``lines`` is line ``first_line`` of the file."""

    file: str
    first_line: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Overhead:
    """What PerfWatch itself cost this process, in seconds.

    ``hooks_s`` is the sum over the ``num_steps`` judged steps, ``hook_s`` the same by hook. ``listening_s`` is what
    its contexts for a step's actions take when they are entered on their own, ``spared_s`` what the contexts take
    that Lightning would enter without it; None where they were not measured, or where the user's own profiler
    listens too. ``capture_s`` is all the time to start, stop and write profiles, in which ``stop_s`` and ``export_s``
    lie; ``recording_s`` is how much longer than judged steps the recorded ones took on the host, which noise may make
    negative. ``analysis_cpu_s`` and ``analysis_wall_s`` are those of the processes that read the traces.
    """

    hooks_s: float
    num_steps: int
    capture_s: float = 0.0
    hook_s: dict[str, float] = field(default_factory=dict)
    listening_s: float | None = None
    spared_s: float | None = None
    stop_s: float | None = None
    export_s: float | None = None
    recording_s: float | None = None
    analysis_cpu_s: float | None = None
    analysis_wall_s: float | None = None
    num_windows_left_out: int = 0

    @property
    def hook_us_per_step(self) -> float | None:
        """Microseconds per step spent in PerfWatch's own hooks outside windows; None without a step."""
        return self.hooks_s / self.num_steps * 1e6 if self.num_steps else None


@dataclass(frozen=True)
class RankSummary:
    """One process of a distributed run; ``host`` is its host's name, or its worker's where only a trace tells.

    A trace alone gives ``trace`` (its file) and the fields below it; of a run that was watched they are None.
    Shares are of ``window_s``, those of device time are means over the trace's devices. ``samples`` and the tokens
    are what the rank trained on in this fit, ``intervals`` the spread of its rates by their names.

    ``own_s`` are the seconds of a mean step by what this rank spends them on, without ``waiting_s``: the part in which
    ranks wait for each other (the backward pass of a run that was watched, exposed communication in a trace).
    ``num_steps`` is what these are means of.
    """

    rank: int
    host: str | None
    tokens_per_s: float | None
    samples_per_s: float | None
    step_time_s: float | None
    data_wait_share: float | None
    trace: str | None = None
    window_s: float | None = None
    busy_share: float | None = None
    communication_share: float | None = None
    exposed_communication_share: float | None = None
    nonpadding_tokens_per_s: float | None = None
    samples: int | None = None
    tokens: int | None = None
    nonpadding_tokens: int | None = None
    intervals: dict[str, Spread] | None = None
    num_steps: int | None = None
    own_s: dict[str, float] | None = None
    waiting_s: float | None = None

    @property
    def process(self) -> str | None:
        """What tells this process from the others: its trace's file name, or its host of a run that was watched."""
        return self.host if self.trace is None else Path(self.trace).name
