"""Rule: matrix products and convolutions in float32 leave the tensor cores unused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import OpCosts, Trace


@dataclass(frozen=True)
class FullPrecisionMatmul(Rule):
    """Matrix products and convolutions in float32 leave the tensor cores unused.

    What it is: float32 matrix products, or convolutions, on a GPU whose tensor cores would do them in TF32 or in 16
    bits.

    Why it costs: by NVIDIA's data sheets (dense, without sparsity) a V100 does 15.7 TFLOPS in float32 and 125 in
    float16, an A100 19.5 and 156 in TF32, an H100 67 and 495, a B200 80 and 1,100; GPUs for graphics of the same
    generations do about twice as much in bfloat16.

    How it is measured: from the trace, the time of the kernels whose names tell a float32 product without tensor
    cores, and the GPU's compute capability. The share is what would be saved at the ratio of these peaks, so it is an
    upper bound. On a CPU nothing is assumed: where it knows bfloat16, the share of the products is told as
    information, without a gain (measured on an AMD EPYC with avx512_bf16: products alone 2.4 times as fast, a step of
    a small GPT 1.08 times, since conversions and attention take more).

    Fix: ``torch.set_float32_matmul_precision("high")`` at the top of the script where the GPU knows TF32;
    ``Trainer(precision="bf16-mixed")``, on V100 and T4 ``precision="16-mixed"``, else.

    Silent when: the tensor cores are used, the GPU has none or is unknown, or less than ``info_share`` would be saved;
    under ``warning_share`` it is information.
    """

    info_share: float = 0.02
    warning_share: float = 0.05
    critical_share: float = 0.25
    min_cpu_product_share: float = 0.3

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        costs = evidence.op_costs
        assert costs is not None
        if costs.clock == "device":
            yield from self._on_gpu(evidence, costs)
        else:
            yield from self._on_cpu(evidence, costs)

    def _on_gpu(self, evidence: Evidence, costs: OpCosts) -> Iterable[Finding]:
        trace = costs.trace
        capability = _capability(trace)
        cores = None if capability is None else _tensor_cores(*capability)
        if capability is None or cores is None:
            return
        ratio, knows_tf32 = cores
        counted = trace.matching(trace.kernels, _is_full_precision)
        launched = trace.launched_us(trace.kernels)
        if len(trace.steps):
            counted &= np.isnan(launched) | (trace.steps.index_of(launched) >= 0)
        kernels = trace.kernels.take(counted)
        product_share = costs.share_of_us(costs.kernels_us(counted))
        share = product_share * (1.0 - 1.0 / ratio)
        if share < self.info_share:
            return
        is_convolution = trace.matching(kernels, lambda name: _CONVOLUTION.search(name) is not None)
        mostly_convolutions = bool(kernels.dur_us[is_convolution].sum() > kernels.dur_us.sum() / 2)
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"{'Convolutions' if mostly_convolutions else 'Matrix products'} in float32 without tensor cores "
            f"take {100 * product_share:.0f} % of the step; the tensor cores are up to {ratio:g} times as fast.",
            advice=_advice(evidence, knows_tf32, mostly_convolutions),
            where=Where(op=_short(trace.names[int(np.bincount(kernels.name, kernels.dur_us).argmax())])),
            evidence={
                "product_share": product_share,
                "peak_ratio": ratio,
                "compute_capability": list(capability),
                "float32_matmul_precision": evidence.settings and evidence.settings.float32_matmul_precision,
            },
        )  # fmt: skip

    def _on_cpu(self, evidence: Evidence, costs: OpCosts) -> Iterable[Finding]:
        settings = evidence.settings
        if settings is None or settings.cpu_bf16 is None or settings.autocast_dtype != "float32":
            return
        if evidence.run is not None and evidence.run.device_type != "cpu":
            return
        share = costs.share(costs.inside(costs.named(_PRODUCTS.__contains__)))
        if share >= self.min_cpu_product_share:
            yield Finding(
                rule=self.id(),
                severity=Severity.INFO,
                share=None,
                summary=f"Matrix products in float32 take {100 * share:.0f} % of the step, and this CPU multiplies "
                f"bfloat16 in hardware ({settings.cpu_bf16}); what conversions would cost is not known.",
                advice='Try Trainer(precision="bf16-mixed") and compare the tokens/s.',
                evidence={"product_share": share, "cpu_bf16": settings.cpu_bf16},
            )


_FULL = re.compile(r"sgemm|scudnn|simt_\w*gemm|f32f32_f32f32|(?:dgrad|wgrad)\w*engine<float|gemm_f32f32_f32")
_CORES = re.compile(r"tf32|16816|1688gemm|884|161616|bf16|f16f16|hmma|nvjet|__half|bfloat", re.IGNORECASE)
_CONVOLUTION = re.compile(r"scudnn|conv|grad", re.IGNORECASE)
_PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mkldnn_convolution"))


def _short(kernel: str) -> str:
    """Its name without types and arguments."""
    return re.split(r"[<(]", kernel.removeprefix("void "))[0]


def _is_full_precision(name: str) -> bool:
    return _FULL.search(name) is not None and _CORES.search(name) is None


def _capability(trace: Trace) -> tuple[int, int] | None:
    """Of the first NVIDIA GPU that the file describes; AMD's numbers mean something else."""
    described = trace.metadata.get("deviceProperties")
    for device in described if isinstance(described, list) else ():
        if isinstance(device, dict) and not re.search(r"AMD|Radeon|Instinct|Intel", str(device.get("name"))):
            major, minor = device.get("computeMajor"), device.get("computeMinor")
            if isinstance(major, int) and isinstance(minor, int):
                return major, minor
    return None


def _tensor_cores(major: int, minor: int) -> tuple[float, bool] | None:
    """How much faster the tensor cores are than float32, at their peaks, and whether TF32 is how to use them."""
    if major < 7:
        return None
    if major == 7:
        return 8.0, False
    if minor > 0 or major >= 12:  # GA10x, AD10x, GB20x: TF32 is not or little faster, bfloat16 twice
        return 2.0, False
    return {8: 8.0, 9: 7.4}.get(major, 13.8), True


def _advice(evidence: Evidence, knows_tf32: bool, mostly_convolutions: bool) -> str:
    assert evidence.trace is not None
    capability = _capability(evidence.trace)
    precision = "16-mixed" if capability is not None and capability[0] == 7 else "bf16-mixed"
    settings = evidence.settings
    is_set = settings is not None and settings.float32_matmul_precision in ("high", "medium")
    if not knows_tf32 or (is_set and not mostly_convolutions):
        return f'Set Trainer(precision="{precision}"), which does them in 16 bits on the tensor cores.'
    line = "torch.backends.cudnn.allow_tf32 = True" if mostly_convolutions else (
        'torch.set_float32_matmul_precision("high")'
    )  # fmt: skip
    return f'Write {line} at the top of the script, or set Trainer(precision="{precision}").'
