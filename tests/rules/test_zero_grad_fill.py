from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.zero_grad_fill import ZeroGradFill
from tests.rules.factories import evidence, healthy_trace, step_trace
from tests.trace.factories import Json, annotation, op


def check(found: Evidence) -> list[Finding]:
    return list(ZeroGradFill().check(found))


def zeroing(us: float, name: str = "aten::zero_") -> list[Json]:
    return [annotation("Optimizer.zero_grad#AdamW.zero_grad", 0, us + 20), op(10, us, name)]


def test_silent_where_gradients_are_dropped() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(evidence(trace=step_trace(annotation("Optimizer.zero_grad#AdamW.zero_grad", 0, 9000)))) == []
    assert check(evidence(trace=step_trace(op(0, 9000, "aten::zero_")))) == []  # the user's own zeros


def test_skipped_without_a_trace() -> None:
    assert ZeroGradFill().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_the_filling_and_the_additions_are_lost() -> None:
    adds = [op(50_000, 2000, "torch::autograd::AccumulateGrad"), op(50_100, 1500, "aten::add_")]
    (finding,) = check(Evidence(trace=step_trace(*zeroing(5000), *adds), missing=TRACE_ALONE))
    assert finding.share == pytest.approx(0.065)
    assert finding.share_is == "estimate"
    assert finding.severity is Severity.WARNING
    assert finding.summary == "Filling gradients with zeros and adding to them takes 6.5 % of the step."
    assert "zero_grad() without set_to_none=False" in finding.advice
    assert finding.where.op == "Optimizer.zero_grad"


@pytest.mark.parametrize(
    ("us", "severity"),
    [(190, None), (210, Severity.INFO), (4900, Severity.INFO), (5100, Severity.WARNING), (26_000, Severity.CRITICAL)],
)
def test_the_severity_follows_the_cost(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(evidence(trace=step_trace(*zeroing(us, "aten::_foreach_zero_"))))]
    assert found == ([] if severity is None else [severity])
