from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.unaligned_matmul import UnalignedMatmul
from tests.rules.factories import evidence, healthy_trace, step_trace
from tests.trace.factories import Json, call, kernel, op

Shape = list[int]


def check(found: Evidence) -> list[Finding]:
    return list(UnalignedMatmul().check(found))


def product(left: Shape, right: Shape, us: float = 20_000, number: int = 1, kind: str = "c10::BFloat16") -> list[Json]:
    args = {"Input Dims": [left, right], "Input type": [kind, kind]}
    return [
        op(1000 * number, 500, "aten::mm", args=args),
        call(1000 * number + 5, 5, correlation=number),
        kernel(5000 + 30_000 * number, us, correlation=number),
    ]


def alone(*events: Json) -> Evidence:
    return Evidence(trace=step_trace(*events), missing=TRACE_ALONE)


def test_silent_on_a_cpu_and_on_sizes_that_fit() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(alone(*product([2048, 768], [768, 50304]))) == []
    assert check(alone(*product([2047, 768], [768, 768]))) == []  # rows don't have to be aligned


@pytest.mark.parametrize("kind", ["float", "double"])
def test_silent_on_other_types(kind: str) -> None:
    assert check(alone(*product([2048, 768], [768, 50257], kind=kind))) == []


def test_silent_on_vectors_and_shapes_that_can_not_be_read() -> None:
    assert check(alone(*product([2048, 768], [768, 1]))) == []
    assert check(alone(*product([], [768, 50257]))) == []
    assert check(alone(*product([2048, 768], [769, 50257]))) == []


def test_a_gpus_trace_without_shapes_is_skipped_with_the_remedy() -> None:
    events = [op(0, 50), call(5, 5, correlation=1), kernel(100, 500, correlation=1)]
    assert "record_shapes=True" in str(UnalignedMatmul().skip_reason(alone(*events)))
    assert UnalignedMatmul().skip_reason(alone(*product([8, 8], [8, 8]))) is None
    assert UnalignedMatmul().skip_reason(evidence(trace=healthy_trace())) is None
    assert UnalignedMatmul().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_the_size_is_named_with_what_to_pad_it_to() -> None:
    forward = product([2048, 768], [768, 50257])
    weights = product([50257, 2048], [2048, 768], us=10_000, number=2)  # its rows are the columns of the forward
    (finding,) = check(alone(*forward, *weights))
    assert finding.share == pytest.approx(0.15)
    assert finding.share_is == "estimate"
    assert finding.severity is Severity.WARNING
    assert "(50257) take 30 % of the step" in finding.summary
    assert finding.advice == "Pad the layer of size 50257 to 50304, a multiple of 64."


@pytest.mark.parametrize(
    ("us", "severity"), [(1900, None), (2100, Severity.INFO), (10_500, Severity.WARNING), (51_000, Severity.CRITICAL)]
)
def test_the_severity_follows_what_would_be_saved(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(alone(*product([2048, 767], [767, 64], us=us)))]
    assert found == ([] if severity is None else [severity])
