"""Rule: the optimizer goes through its tensors one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.settings import OptimizerSettings
from lightning_perfwatch.trace.optimizers import OptimizerPart, optimizer_parts


@dataclass(frozen=True)
class UnfusedOptimizer(Rule):
    """The optimizer goes through its tensors one by one.

    What it is: torch's for-loop implementation of an optimizer, which calls about ten operators for each parameter.
    It is the default on a CPU; on a GPU it is there with ``foreach=False``, or with parameters of mixed types.

    Why it costs: each call goes through Python and reads and writes the whole tensor. ``fused=True`` makes one kernel
    of all of them, ``foreach=True`` a kernel per operator for all tensors.

    How it is measured: from the trace, the part of ``Optimizer.step`` that is behind the backward pass; on a GPU from
    the first to the last of its kernels. It loops if it calls more than ``min_ops`` operators and none of them is a
    fused or foreach one. On a CPU ``fused=True`` saves 0.58 to 0.86 of AdamW's loop, 0.20 to 0.72 of SGD's and 0.53
    to 0.64 of Adagrad's (20 to 1000 tensors of 128 to 4,000,000 elements, one thread of a CPU of the kind AMD EPYC):
    the medians count. On a GPU, where the loop is bound by its launches, nearly all of it goes: 0.9 are assumed.
    ``foreach=True`` is not faster on a CPU (0.7 to 4.5 times as long), so it is advised on a GPU only.

    Fix: ``torch.optim.AdamW(..., fused=True)`` (Adam, AdamW, SGD and Adagrad know it); for others on a GPU
    ``foreach=True``.

    Silent when: the optimizer is fused or foreach, torch has neither for it, or less than ``info_share`` would be
    saved; under ``warning_share`` it is information.
    """

    info_share: float = 0.01
    warning_share: float = 0.05
    critical_share: float = 0.25
    min_ops: int = 10

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for each class of optimizer that loops."""
        costs = evidence.op_costs
        assert costs is not None
        on_device = costs.clock == "device"
        for part in optimizer_parts(costs):
            saved = _SAVED_ON_A_GPU if on_device else _SAVED_ON_A_CPU.get(part.name)
            is_known = part.name in _FUSED or (on_device and part.name in _FOREACH)
            if part.way != "loop" or part.ops_per_call < self.min_ops or saved is None or not is_known:
                continue
            settings = _settings(evidence, part.name)
            if part.share * saved >= self.info_share and (settings is None or settings.is_torchs):
                yield self._finding(part, part.share * saved, settings, on_device)

    def _finding(
        self, part: OptimizerPart, share: float, settings: OptimizerSettings | None, on_device: bool
    ) -> Finding:
        setting = "fused=True" if part.name in _FUSED else "foreach=True"
        tensors = "" if settings is None else f" of {settings.num_parameter_tensors} tensors"
        why = "" if settings is None or settings.foreach is not False else " (it was told foreach=False)"
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="estimate",
            summary=f"{part.name} updates its parameters one by one{why}: {part.ops_per_call:.0f} operators"
            f"{tensors} take {100 * part.share:.1f} % of the step, and {setting} would save "
            f"{100 * share:.1f} %.",
            advice=f"Write torch.optim.{part.name}(..., {setting}).",
            where=Where(op=f"{part.name}.step"),
            evidence={
                "optimizer_share": part.share,
                "ops_per_call": part.ops_per_call,
                "calls_per_step": part.calls_per_step,
                "num_parameter_tensors": None if settings is None else settings.num_parameter_tensors,
                "clock": "device" if on_device else "host",
            },
        )  # fmt: skip


def _settings(evidence: Evidence, name: str) -> OptimizerSettings | None:
    known = () if evidence.settings is None else evidence.settings.optimizers
    return next((settings for settings in known if settings.name == name), None)


_FUSED = frozenset(("Adam", "AdamW", "SGD", "Adagrad"))
_FOREACH = frozenset(("Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"))
# Medians of the measurement that the page tells.
_SAVED_ON_A_CPU = {"Adam": 0.7, "AdamW": 0.7, "SGD": 0.5, "Adagrad": 0.6}
_SAVED_ON_A_GPU = 0.9
