"""Rule: convolutions convert their inputs to another memory layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.frequency import how_many
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import OpCosts, Trace
from lightning_perfwatch.trace.columns import Bools


@dataclass(frozen=True)
class ConvLayout(Rule):
    """Convolutions convert their inputs to another memory layout.

    What it is: images lie in memory channel by channel (NCHW), and the GPU's fast convolutions want all channels of a
    pixel side by side (NHWC, ``channels_last``). So cuDNN transposes before and after each convolution.

    Why it costs: a transposition reads and writes the whole activation and computes nothing.

    How it is measured: from the trace, the kernels that transpose the layout (``nchwToNhwc``, ``nhwcToNchw``), if they
    take more than ``min_transpose_share`` of what convolutions take altogether. Where convolutions take at least
    ``min_convolution_share`` of the step and cuDNN does not try its algorithms out, that is told as information,
    without a gain.

    Fix: ``model.to(memory_format=torch.channels_last)`` and the same for the images;
    ``Trainer(benchmark=True)`` where the shapes of the batches stay the same.

    Silent when: there are no such kernels on a GPU, or they cost less than ``info_share``; under ``warning_share`` it
    is information.
    """

    info_share: float = 0.005
    warning_share: float = 0.05
    critical_share: float = 0.25
    min_transpose_share: float = 0.1
    min_convolution_share: float = 0.2

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding for the layout and one for the choice of algorithms."""
        costs = evidence.op_costs
        assert costs is not None
        if costs.clock != "device":
            return
        convolutions = costs.inside(costs.named(lambda name: "convolution" in name.lower()))
        convolution_us = float(costs.us[convolutions].sum())
        transposing = _transposing(costs.trace)
        transposing_us = costs.kernels_us(transposing)
        # An operator that is not recorded launches kernels too: then the transpositions are all that is known.
        part = transposing_us / max(convolution_us, transposing_us) if transposing_us > 0 else 0.0
        share = costs.share_of_us(transposing_us)
        if part >= self.min_transpose_share and share >= self.info_share:
            yield self._layout(share, part, int(transposing.sum()), costs.trace.per_step(int(transposing.sum())))
        yield from self._benchmark(evidence, costs, convolution_us)

    def _layout(self, share: float, part: float, num_kernels: int, per_step: float | None) -> Finding:
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"Changing the memory layout of images around convolutions takes {100 * part:.0f} % of the time "
            f"of the convolutions, {100 * share:.1f} % of the step ({how_many(num_kernels, 'kernel', per_step)}).",
            advice="Write model.to(memory_format=torch.channels_last), and images = "
            "images.to(memory_format=torch.channels_last) in the training step.",
            where=Where(op="convolution"),
            evidence={"share_of_convolutions": part, "kernels_per_step": per_step},
        )  # fmt: skip

    def _benchmark(self, evidence: Evidence, costs: OpCosts, convolution_us: float) -> Iterable[Finding]:
        settings = evidence.settings
        if settings is None or settings.cudnn_benchmark is not False or settings.cudnn_deterministic:
            return
        share = costs.share_of_us(convolution_us)
        if share >= self.min_convolution_share:
            yield Finding(
                rule=self.id(),
                severity=Severity.INFO,
                share=None,
                summary=f"Convolutions take {100 * share:.0f} % of the step, and cuDNN guesses their algorithms "
                "instead of trying them out.",
                advice="Set Trainer(benchmark=True) if the shapes of the batches stay the same.",
                where=Where(op="cudnn.benchmark"),
                evidence={"convolution_share": share},
            )


def _transposing(trace: Trace) -> Bools:
    hits = trace.matching(trace.kernels, lambda name: "nchwToNhwc" in name or "nhwcToNchw" in name)
    launched = trace.launched_us(trace.kernels)
    inside = np.ones(len(hits), np.bool_) if not len(trace.steps) else trace.steps.index_of(launched) >= 0
    return np.asarray(hits & inside, dtype=np.bool_)
