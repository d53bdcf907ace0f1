"""The callback: turns the Trainer's hooks into calls on the watch of a fit, and guards the training from it.

Owns the one boundary behind which PerfWatch's own failures stay. Computes nothing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, TypeVar

from lightning.pytorch.callbacks import Callback

from lightning_perfwatch.config import PerfWatchConfig
from lightning_perfwatch.live.muting import unmuted
from lightning_perfwatch.live.place import find_place
from lightning_perfwatch.live.ranks import RankPart, gather
from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.startup import Startup
from lightning_perfwatch.live.totals import RunTotals
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.live.triggers import Triggers
from lightning_perfwatch.report import Report
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.session import Session

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from omegaconf import DictConfig

Hook = TypeVar("Hook", bound=Callable[..., None])


def _guarded(hook: Hook) -> Hook:
    """Keep what goes wrong in PerfWatch out of the training: say it once and switch PerfWatch off.

    Hooks of another Trainer (a fit inside of a fit) or from another thread are not for the running session.
    """

    @functools.wraps(hook)
    def guarded(self: PerfWatch, trainer: Any, *args: Any, **kwargs: Any) -> None:
        try:
            if self._session is None or self._session.is_for(trainer):
                hook(self, trainer, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the one boundary: training goes on, whatever failed here
            self._switch_off(error)

    return guarded  # type: ignore[return-value]


class PerfWatch(Callback):
    """Measures a fit and says what makes it slow; add it to ``Trainer(callbacks=[PerfWatch()])``.

    It measures throughput and the phases of every step, records a few steps with torch.profiler, and at the end
    prints one report, which also lies in the run directory as ``report.json`` and ``report.html``. It never changes
    or ends a training run: what fails in it is warned about once and costs that part of the report.

    Args:
        schedule: which steps are profiled.
        tokens: how to count the tokens of a batch: None finds them by shape, a string is the key of the token ids,
            a callable gets the batch and returns a whole number, or a tensor of one number, which is read later
            (it must not read values from the device itself).
        ranks: which processes record traces: ``"rank0"``, ``"all"`` or a list of ranks. All count throughput.
        dir: the run directory; None is ``perfwatch`` below the logger's directory, or below ``default_root_dir``.
        rules: None for all rules, rules or their ids for those only, or a mapping from rule id to thresholds.
        ignore: ids of rules that stay silent.
        quiet: print nothing; the report is still written.
        trace: what a trace records and how large it may become.
        flops_per_batch: the model FLOPs of one batch on one device, forward and backward: a number or a function of
            the batch; None takes the LightningModule's own ``flops_per_batch``, or counts them in one step.
        peak_tflops: the device's dense peak in 1e12 FLOP/s; None looks it up by the device's name.
        max_overhead_share: what repeated windows, and what PerfWatch's hooks may cost, each as a share (0..1] of the
            training time; beyond it PerfWatch does less and says so. Windows that were asked for, the first one and
            those on request, don't count. None is no limit.
        triggers: what opens a window besides the schedule: ``perfwatch trigger RUN_DIR``, a signal, or a step that
            takes longer than it used to.

    Raises:
        ValueError: an argument can't be used; the message names it, the value and the remedy.

    After a fit, ``report`` is its :class:`~lightning_perfwatch.Report`; before, it is None.
    """

    def __init__(
        self,
        schedule: Schedule | None = None,
        tokens: str | Callable[[Any], int] | None = None,
        ranks: str | Sequence[int] = "rank0",
        dir: str | PathLike[str] | None = None,
        rules: Sequence[Rule | str] | Mapping[str, Mapping[str, float]] | None = None,
        ignore: Iterable[str] = (),
        quiet: bool = False,
        trace: TraceOptions | None = None,
        flops_per_batch: float | Callable[[Any], float] | None = None,
        peak_tflops: float | None = None,
        max_overhead_share: float | None = 0.01,
        triggers: Triggers | None = None,
    ) -> None:
        settings: tuple[Any, ...] = (
            schedule,
            tokens,
            ranks,
            dir,
            rules,
            ignore,
            quiet,
            trace,
            flops_per_batch,
            peak_tflops,
            max_overhead_share,
            triggers,
        )
        self.config = PerfWatchConfig(*settings)
        self.report: Report | None = None
        self._session: Session | None = None  # until it is concluded
        self._live: Session | None = None  # as long as it measures
        self._has_begun = False
        self._startup = Startup()
        self._totals = RunTotals()

    @classmethod
    def from_config(cls, source: str | PathLike[str] | Mapping[str, Any] | DictConfig) -> PerfWatch:
        """The callback with the settings of a YAML file, a dict or a ``DictConfig``.

        Raises:
            ValueError: as :meth:`PerfWatchConfig.read`.
        """
        config = PerfWatchConfig.read(source)
        return cls(**{name: getattr(config, name) for name in config.__dataclass_fields__})

    def __getstate__(self) -> dict[str, Any]:
        """Settings and report travel to other processes and into copies; a running session does not."""
        return {**unmuted(self.__dict__), "_session": None, "_live": None}

    @_guarded
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """A fit is set up."""
        self._startup.begin()

    @_guarded
    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """The sanity check begins."""
        self._startup.check_begins()

    @_guarded
    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        """The sanity check is over."""
        self._startup.check_ends()

    @_guarded
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """A fit begins, which need not come to a training step."""
        self.report = None
        self._has_begun = False

    @_guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch; the choice of the run directory comes first, since every rank has to take part in it."""
        self._has_begun = True
        if trainer.fast_dev_run:
            log.info("PerfWatch is off: a fast_dev_run is too short to be measured.")
            return
        place = find_place(trainer, self.config.dir)
        self._live = self._session = Session(trainer, pl_module, self, self.config, place, self._totals, self._startup)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A training step begins."""
        if self._live is not None and self._live.watches_steps:
            self._step_started(trainer)

    @_guarded
    def _step_started(self, trainer: Any) -> None:
        if self._live is not None:
            self._live.step_started()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A training step is over; guarded as the other hooks are, at less cost."""
        live = self._live
        try:
            if live is not None and live.is_for(trainer):
                live.step_ended(batch)
        except Exception as error:  # noqa: BLE001 - see _guarded
            self._switch_off(error)

    @_guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation begins; during the sanity check there is no session yet."""
        if self._live is not None:
            self._live.validation_begins()

    @_guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """A checkpoint takes along what was counted, so that a resumed run can tell its totals."""
        if self._live is not None:
            self._live.checkpoint_begins()
        self._totals.save(checkpoint, trainer.global_rank)

    @_guarded
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """A run is resumed."""
        self._totals.load(checkpoint, trainer.global_rank)

    @_guarded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Training is over; the ranks exchange what they measured, and every one of them has to take part."""
        self._stop(trainer)
        if not trainer.fast_dev_run:
            parts = gather(RankPart() if self._session is None else self._session.part, trainer.world_size)
            if self._session is not None:
                self._session.parts = parts

    @_guarded
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Everything is over: report."""
        if not self._has_begun:
            log.info("PerfWatch has nothing to report: no training step ran in this fit.")
        self._conclude(None)

    @_guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The fit broke off, and no other hook will be called: keep what was measured and report soon."""
        self._stop(trainer, f"the run ended with {type(exception).__name__}")
        self._conclude(_PATIENCE_AFTER_EXCEPTION_S)

    @_guarded
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Nothing may outlive the fit, whatever hooks were left out."""
        self._stop(trainer)
        self._session = None

    @_guarded
    def _stop(self, trainer: Any, reason: str | None = None) -> None:
        if self._session is not None:
            self._session.stop(reason)
        self._live = None

    def _conclude(self, longest_s: float | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            self.report = session.conclude(longest_s)
            session.show(self.report)

    def _switch_off(self, error: Exception) -> None:
        """Measure no more; the report at the end still holds what was measured until now."""
        log.exception("PerfWatch failed and measures no more; the training is not affected. Please report this.")
        live, self._live = self._live, None
        if live is not None:
            live.abandon(f"PerfWatch failed: {''.join(format_exception_only(error)).strip()}")
        self._totals.lose()


_PATIENCE_AFTER_EXCEPTION_S = 15.0
