"""Rule: training runs on the CPU of a machine that has an accelerator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Accelerators
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class AcceleratorUnused(Rule):
    """Training runs on the CPU although the machine has an accelerator.

    What it is: the Trainer was told ``accelerator="cpu"``, or this torch is built without support for the GPU that is
    there, which happens when a package index serves the build for CPUs.

    Why it costs: a GPU multiplies matrices some ten to hundred times as fast as a CPU. How much a model gains from it
    can't be told without trying, so the finding has no share.

    How it is measured: torch is asked how many devices it could use, in ways that start none; on Linux the driver's
    own list of NVIDIA GPUs tells those that torch has no support for.

    Fix: ``Trainer(accelerator="auto")``, or a torch that is built for the GPU.

    Silent when: there is none, or training runs on it. It is only information for a model of fewer than
    ``min_parameters`` parameters, whose operators are too small to gain much, and on Apple's GPUs, on which some
    models are slower than on their CPUs.
    """

    min_parameters: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("run", "resources")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where torch or the driver gave no answer."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.resources is None or _runs_on_one(evidence):
            return reason
        return evidence.resources.why_missing("accelerators") if evidence.resources.accelerators is None else None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.run is not None and evidence.resources is not None
        there = evidence.resources.accelerators
        if _runs_on_one(evidence) or there is None:
            return
        is_small = (evidence.run.num_parameters or self.min_parameters) < self.min_parameters
        kind = next((kind for kind in _SPOKEN if there.usable.get(kind)), None)
        if kind is not None:
            severity = Severity.INFO if is_small or kind == "mps" else Severity.WARNING
            yield self._finding(
                _SPOKEN[kind], there.usable[kind], "", 'Train with Trainer(accelerator="auto")', severity, there
            )
        elif there.num_nvidia and there.build in ("cpu", "xpu"):
            advice = "Install torch's build for CUDA (see pytorch.org/get-started/locally)"
            built = f", and this torch is built for {'CPUs only' if there.build == 'cpu' else 'Intel GPUs'}"
            severity = Severity.INFO if is_small else Severity.WARNING
            yield self._finding("NVIDIA GPU", there.num_nvidia, built, advice, severity, there)

    def _finding(
        self, name: str, count: int, why: str, advice: str, severity: Severity, there: Accelerators
    ) -> Finding:
        return Finding(
            rule=self.id(),
            severity=severity,
            share=None,
            summary=f"Training runs on the CPU, and this machine has {count} {name}{'s' * (count > 1)}{why}.",
            advice=f"{advice}.",
            evidence={"usable": there.usable, "num_nvidia": there.num_nvidia, "torch_build": there.build},
        )


_SPOKEN = {"cuda": "GPU", "xpu": "Intel GPU", "mps": "Apple GPU"}


def _runs_on_one(evidence: Evidence) -> bool:
    return evidence.run is None or evidence.run.device_type != "cpu"
