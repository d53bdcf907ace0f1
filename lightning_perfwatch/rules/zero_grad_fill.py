"""Rule: gradients are filled with zeros instead of being dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace.optimizers import zero_fill


@dataclass(frozen=True)
class ZeroGradFill(Rule):
    """Gradients are filled with zeros instead of being dropped.

    What it is: ``optimizer.zero_grad(set_to_none=False)``, which writes zeros into each gradient.

    Why it costs: the zeros are written, and the backward pass reads them, adds to them and writes again, where it
    could have put its result there. That is memory traffic of three times the size of the parameters, and a kernel or
    a call for each of them.

    How it is measured: from the trace, ``aten::zero_`` or ``aten::_foreach_zero_`` inside of ``Optimizer.zero_grad``,
    and the additions of ``AccumulateGrad``; under gradient accumulation only as many of these as follow a filling. On a
    CPU that is an estimate: gradients that are dropped are allocated anew, and what the system's allocator makes of
    it may weigh more. Measured with gradients of 2 to 16 MB, where it was 3 to 5 % of the step, training was 0.9 to
    2.0 times as fast without filling.

    Fix: call ``zero_grad()`` without ``set_to_none=False``; in a LightningModule override ``optimizer_zero_grad``
    only with ``optimizer.zero_grad()``.

    Silent when: no gradient is filled, or it costs less than ``info_share``; under ``warning_share`` it is
    information.
    """

    info_share: float = 0.002
    warning_share: float = 0.05
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        costs = evidence.op_costs
        assert costs is not None
        found = zero_fill(costs)
        if found is None or found.share < self.info_share:
            return
        share = found.share
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="upper bound" if costs.clock == "device" else "estimate",
            summary=f"Filling gradients with zeros and adding to them takes {100 * share:.1f} % of the step.",
            advice="Call optimizer.zero_grad() without set_to_none=False (in a LightningModule: in "
            "optimizer_zero_grad), so that gradients are dropped and not filled.",
            where=Where(op="Optimizer.zero_grad"),
            evidence={
                "fill_share": found.fill_share,
                "add_share": found.add_share,
                "fills_per_step": found.fills_per_step,
                "clock": costs.clock,
            },
        )  # fmt: skip
