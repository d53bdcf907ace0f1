from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.full_precision_matmul import FullPrecisionMatmul
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, healthy_trace, on_gpu, settings, step_trace
from tests.trace.factories import call, kernel, op


def check(found: Evidence) -> list[Finding]:
    return list(FullPrecisionMatmul().check(found))


def gpu_trace(
    name: str, us: float = 30_000, capability: tuple[int, int] | None = (8, 0), device: str = "NVIDIA A100"
) -> Trace:
    described: dict[str, Any] = {"id": 0, "name": device}
    if capability is not None:
        described |= {"computeMajor": capability[0], "computeMinor": capability[1]}
    events = [op(0, 50, "aten::mm"), call(5, 5, correlation=1), kernel(100, us, name, correlation=1)]
    return step_trace(*events, deviceProperties=[described])


def alone(trace: Trace) -> Evidence:
    return Evidence(trace=trace, missing=TRACE_ALONE)


def test_silent_on_a_healthy_run() -> None:
    assert check(evidence(trace=healthy_trace())) == []


@pytest.mark.parametrize(
    "name",
    [
        "cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4",
        "sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn",
        "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
        "nvjet_sm100_tst_8x64_64x16_1x4_h_bz_TNN",
        "void at::native::vectorized_elementwise_kernel<4, float>",
        "gemv2T_kernel_val<int, int, float>",
    ],
)
def test_silent_about_kernels_on_the_tensor_cores_and_others(name: str) -> None:
    assert check(alone(gpu_trace(name))) == []


@pytest.mark.parametrize("capability", [(6, 1), None])
def test_silent_where_there_are_no_tensor_cores_or_the_gpu_is_unknown(capability: tuple[int, int] | None) -> None:
    assert check(alone(gpu_trace("ampere_sgemm_128x64_tn", capability=capability))) == []
    assert check(alone(gpu_trace("ampere_sgemm_128x64_tn", capability=(9, 4), device="AMD Instinct MI300X"))) == []


def test_skipped_without_a_trace() -> None:
    assert FullPrecisionMatmul().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_an_a100_in_float32_is_told_to_use_tf32() -> None:
    (finding,) = check(alone(gpu_trace("ampere_sgemm_128x64_tn")))
    assert finding.share == pytest.approx(0.3 * 7 / 8)
    assert finding.severity is Severity.CRITICAL
    assert "take 30 % of the step; the tensor cores are up to 8 times as fast" in finding.summary
    assert 'torch.set_float32_matmul_precision("high")' in finding.advice
    assert finding.where.op == "ampere_sgemm_128x64_tn"


@pytest.mark.parametrize(
    ("name", "capability", "share", "advice"),
    [
        ("volta_sgemm_128x64_tn", (7, 0), 0.3 * 7 / 8, 'precision="16-mixed"'),
        ("ampere_sgemm_128x64_tn", (8, 6), 0.15, 'precision="bf16-mixed"'),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn", (9, 0), 0.3 * (1 - 1 / 7.4), "set_float32_matmul_precision"),
        ("void implicit_convolve_sgemm<float, float, 1024>", (8, 0), 0.3 * 7 / 8, "cudnn.allow_tf32 = True"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6>", (7, 0), 0.3 * 7 / 8, 'precision="16-mixed"'),
    ],
)
def test_the_advice_fits_the_gpu(name: str, capability: tuple[int, int], share: float, advice: str) -> None:
    (finding,) = check(alone(gpu_trace(name, capability=capability)))
    assert finding.share == pytest.approx(share)
    assert advice in finding.advice
    assert "<" not in (finding.where.op or "")


def test_where_tf32_is_allowed_already_16_bits_are_advised() -> None:
    allowed = settings(float32_matmul_precision="high")
    (finding,) = check(evidence(trace=gpu_trace("ampere_sgemm_128x64_tn"), run=on_gpu(), settings=allowed))
    assert "set_float32_matmul_precision" not in finding.advice
    assert "bf16-mixed" in finding.advice


@pytest.mark.parametrize(("us", "severity"), [(2200, None), (2400, Severity.INFO), (6000, Severity.WARNING)])
def test_the_severity_follows_what_would_be_saved(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(alone(gpu_trace("ampere_sgemm_64x64", us)))]
    assert found == ([] if severity is None else [severity])


class TestOnACpu:
    def test_one_that_knows_bfloat16_is_information_without_a_gain(self) -> None:
        (finding,) = check(evidence(trace=healthy_trace(), settings=settings(cpu_bf16="amx")))
        assert (finding.severity, finding.share) == (Severity.INFO, None)
        assert "multiplies bfloat16 in hardware (amx)" in finding.summary

    @pytest.mark.parametrize(
        "changes", [{"cpu_bf16": None}, {"cpu_bf16": "amx", "autocast_dtype": "bfloat16"}, {"autocast_dtype": None}]
    )
    def test_others_are_not_spoken_of(self, changes: dict[str, Any]) -> None:
        assert check(evidence(trace=healthy_trace(), settings=settings(**changes))) == []

    def test_few_products_are_not_spoken_of(self) -> None:
        few = step_trace(op(0, 29_000, "aten::mm"))
        assert check(evidence(trace=few, settings=settings(cpu_bf16="amx"))) == []

    def test_a_trace_alone_says_nothing_of_the_cpu(self) -> None:
        assert check(alone(healthy_trace())) == []
