from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.slow_attention import SlowAttention
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, healthy_trace, node, on_gpu, run_info, settings, step_trace
from tests.trace.factories import Json, call, kernel, op


def check(found: Evidence) -> list[Finding]:
    return list(SlowAttention().check(found))


def math_path(*inner: str, us: float = 1000, start: float = 0) -> list[Json]:
    """torch's slow path with matrix products of 6 ms, a softmax of 2 ms and ``inner`` operators of ``us`` each."""
    names = [("aten::bmm", 3000.0), ("aten::_softmax", 2000.0), *((name, us) for name in inner), ("aten::bmm", 3000.0)]
    total = sum(dur for _, dur in names)
    events = [op(start, total + 1, "aten::_scaled_dot_product_attention_math")]
    at = start
    for name, dur in names:
        events.append(op(at, dur, name))
        at += dur
    return events


def on_cpu(*events: Json, **changes: object) -> Evidence:
    return evidence(trace=step_trace(*events), **changes)


def test_silent_without_attention_and_with_the_fused_kernel() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(on_cpu(op(0, 50_000, "aten::_scaled_dot_product_flash_attention_for_cpu"))) == []


def test_skipped_without_a_trace() -> None:
    assert SlowAttention().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_dropout_is_why_a_cpu_refuses_the_fused_kernel_and_the_products_are_not_lost() -> None:
    (finding,) = check(on_cpu(*math_path("aten::tril", "aten::add_", "aten::dropout", us=3000)))
    assert finding.severity is Severity.WARNING
    assert finding.share == pytest.approx((9 + 1) / 100, abs=1e-4)  # three operators and half of the softmax
    assert finding.share_is == "estimate"
    assert finding.evidence["attention_share"] == pytest.approx(0.17, abs=1e-4)
    assert finding.evidence["dropout_share"] == pytest.approx(0.03, abs=1e-4)
    assert "17 % of the step on the slow path, 10 % more than a fused kernel would need" in finding.summary
    assert "its dropout_p is above 0" in finding.summary
    assert "dropout_p=0.0" in finding.advice
    assert finding.where.op == "scaled_dot_product_attention"


def test_the_backward_pass_counts_too() -> None:
    backward = node("SoftmaxBackward0", 50_000, 8000, "aten::_softmax_backward_data")
    (finding,) = check(on_cpu(*math_path("aten::dropout"), *backward, *node("MulBackward0", 60_000, 9000, "aten::mul")))
    assert finding.share == pytest.approx((1 + 1 + 4) / 100, abs=1e-3)  # no multiplication is attention's here


@pytest.mark.parametrize(
    ("inner", "reason", "advice"),
    [
        (["aten::add_"], "a mask that needs a gradient", "attn_mask.detach()"),
        (["aten::tril", "aten::add_"], "broadcast", ".contiguous()"),
        (["aten::mul"], "broadcast", ".contiguous()"),
    ],
)
def test_other_reasons_on_a_cpu(inner: list[str], reason: str, advice: str) -> None:
    (finding,) = check(on_cpu(*math_path(*inner, us=5000)))
    assert reason in finding.summary
    assert advice in finding.advice


def test_a_backend_that_is_switched_off_comes_first() -> None:
    off = settings(sdp_backends=("math", "mem_efficient"))
    (finding,) = check(on_cpu(*math_path("aten::dropout", us=5000), settings=off))
    assert "switched off" in finding.summary
    assert "enable_flash_sdp(True)" in finding.advice


def test_the_severity_follows_what_would_be_saved() -> None:
    severities = [
        [finding.severity for finding in check(on_cpu(*math_path("aten::dropout", us=us)))]
        for us in (0, 3_900, 4_100, 23_000, 25_000)
    ]
    info, warning, critical = [Severity.INFO], [Severity.WARNING], [Severity.CRITICAL]
    assert severities == [info, info, warning, warning, critical]
    assert check(evidence(trace=step_trace(*math_path(us=0), op(99_000, 1)))) != []
    assert list(SlowAttention(info_share=0.02).check(on_cpu(*math_path()))) == []


def handwritten(*between: str) -> list[Json]:
    names = ["aten::bmm", "aten::div", "aten::_softmax", *between, "aten::bmm"]
    return [op(4000 * at, 4000, name) for at, name in enumerate(names)]


def test_attention_by_hand_is_to_be_replaced() -> None:
    (finding,) = check(on_cpu(*handwritten()))
    assert finding.share == pytest.approx(0.06)
    assert "written by hand" in finding.summary
    assert "scaled_dot_product_attention(Q, K, V)" in finding.advice
    assert "dropout_p" not in finding.advice
    assert finding.where.op == "softmax(Q @ K) @ V"
    (dropping,) = check(on_cpu(*handwritten("aten::dropout")))
    assert "dropout_p=0.0" in dropping.advice  # or the fused kernel for CPUs would refuse it


def test_the_module_of_torch_that_returns_its_weights_is_named() -> None:
    (finding,) = check(on_cpu(*handwritten(), settings=settings(num_multihead_attentions=2)))
    assert "need_weights=False" in finding.advice


def test_in_16_bits_on_a_cpu_without_amx_it_is_information() -> None:
    events = math_path("aten::dropout", us=30_000)
    (finding,) = check(on_cpu(*events, settings=settings(autocast_dtype="bfloat16", cpu_bf16="avx512_bf16")))
    assert (finding.severity, finding.share) == (Severity.INFO, None)
    (finding,) = check(on_cpu(*events, settings=settings(autocast_dtype="bfloat16", cpu_bf16="amx")))
    assert finding.severity is Severity.CRITICAL


class TestOnAGpu:
    def gpu_trace(self, *inner: str) -> Trace:
        names = ["aten::bmm", "aten::_softmax", *inner]
        host = [op(0, 100 * len(names) + 1, "aten::_scaled_dot_product_attention_math")]
        work = []
        for at, name in enumerate(names):
            host += [op(100 * at, 99, name), call(100 * at + 1, 5, correlation=at + 1)]
            work.append(kernel(1000 + 20_000 * at, 20_000, correlation=at + 1))
        return step_trace(*host, *work)

    def test_kernels_count_and_dropout_is_no_reason(self) -> None:
        (finding,) = check(evidence(trace=self.gpu_trace("aten::native_dropout"), run=on_gpu()))
        assert finding.evidence["clock"] == "device"
        assert finding.share == pytest.approx(0.3)
        assert "suit no fused kernel" in finding.summary
        assert "multiple of 8" in finding.advice

    def test_a_mask_is_named(self) -> None:
        (finding,) = check(evidence(trace=self.gpu_trace("aten::add_"), run=on_gpu()))
        assert "its mask" in finding.summary
        assert "is_causal=True" in finding.advice

    def test_a_trace_alone_is_enough(self) -> None:
        (finding,) = check(Evidence(trace=self.gpu_trace("aten::add_"), missing=TRACE_ALONE))
        assert finding.severity is Severity.CRITICAL

    def test_one_fused_backend_is_enough(self) -> None:
        some = settings(sdp_backends=("math", "mem_efficient"))
        (finding,) = check(evidence(trace=self.gpu_trace("aten::add_"), run=on_gpu(), settings=some))
        assert "switched off" not in finding.summary
        (finding,) = check(evidence(trace=self.gpu_trace(), run=run_info(), settings=settings(sdp_backends=("math",))))
        assert "enable_mem_efficient_sdp(True)" in finding.advice
