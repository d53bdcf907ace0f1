from __future__ import annotations

from pathlib import Path

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.conv_layout import ConvLayout
from lightning_perfwatch.trace import read_trace
from tests.rules.factories import evidence, healthy_trace, on_gpu, settings, step_trace
from tests.trace.factories import Json, call, kernel, op

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
TRANSPOSE = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"


def check(found: Evidence) -> list[Finding]:
    return list(ConvLayout().check(found))


def convolution(conv_us: float, transpose_us: float) -> list[Json]:
    return [
        op(0, 200, "aten::cudnn_convolution"),
        call(5, 5, correlation=1),
        call(50, 5, correlation=2),
        kernel(1000, transpose_us, TRANSPOSE, correlation=1),
        kernel(40_000, conv_us - transpose_us, "sm80_xmma_fprop_implicit_gemm", correlation=2),
    ]


def alone(*events: Json) -> Evidence:
    return Evidence(trace=step_trace(*events), missing=TRACE_ALONE)


def test_silent_on_a_cpu_and_where_the_layout_stays() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(alone(*convolution(50_000, 0))) == []
    assert check(alone(*convolution(50_000, 4_900))) == []  # under a tenth of the convolutions


def test_skipped_without_a_trace() -> None:
    assert ConvLayout().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_transpositions_are_lost() -> None:
    (finding,) = check(alone(*convolution(50_000, 10_000)))
    assert finding.share == pytest.approx(0.1)
    assert finding.severity is Severity.WARNING
    assert "20 % of the time of the convolutions, 10.0 % of the step" in finding.summary
    assert "channels_last" in finding.advice


@pytest.mark.parametrize(
    ("us", "severity"), [(400, None), (600, Severity.INFO), (5100, Severity.WARNING), (26_000, Severity.CRITICAL)]
)
def test_the_severity_follows_the_cost(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(alone(*convolution(2 * us, us)))]
    assert found == ([] if severity is None else [severity])


def test_algorithms_that_are_not_tried_out_are_information() -> None:
    trace = step_trace(*convolution(30_000, 0))
    (finding,) = check(evidence(trace=trace, run=on_gpu()))
    assert (finding.severity, finding.share) == (Severity.INFO, None)
    assert "Trainer(benchmark=True)" in finding.advice
    assert check(evidence(trace=trace, run=on_gpu(), settings=settings(cudnn_benchmark=True))) == []
    assert check(evidence(trace=trace, run=on_gpu(), settings=settings(cudnn_deterministic=True))) == []
    assert check(evidence(trace=step_trace(*convolution(19_000, 0)), run=on_gpu())) == []


@pytest.mark.skipif(not TRACES.is_dir(), reason="the folder with real GPU traces is not here")
def test_a_real_resnet_transposes_a_quarter_of_its_convolutions() -> None:
    trace = read_trace(TRACES / "resnet_ddp_a100.pt.trace.json.gz")
    (finding,) = check(Evidence(trace=trace, missing=TRACE_ALONE))
    assert finding.severity is Severity.INFO  # the GPU idles for three quarters of the time
    assert finding.evidence["share_of_convolutions"] == pytest.approx(0.25, abs=0.02)
