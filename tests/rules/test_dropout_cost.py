from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.dropout_cost import DropoutCost
from lightning_perfwatch.rules.slow_attention import SlowAttention
from lightning_perfwatch.settings import DropoutLayer
from tests.rules.factories import evidence, healthy_trace, node, settings, step_trace
from tests.trace.factories import Json, call, fetch, kernel, op


def check(found: Evidence) -> list[Finding]:
    return list(DropoutCost().check(found))


def dropout(start: float, us: float) -> list[Json]:
    return [op(start, us, "aten::dropout"), op(start, us * 0.8, "aten::bernoulli_")]


def on_cpu(*events: Json, **changes: object) -> Evidence:
    return evidence(trace=step_trace(*events), **changes)


def test_silent_without_dropout() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(on_cpu(*dropout(0, 1900))) == []


def test_skipped_without_a_trace() -> None:
    assert DropoutCost().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_dropout_costs_its_forward_and_its_part_of_the_backward_pass() -> None:
    events = [*dropout(0, 6000), op(3000, 1000, "aten::mul"), op(10_000, 1000, "aten::mul")]
    (finding,) = check(on_cpu(*events, *node("MulBackward0", 50_000, 4000, "aten::mul")))
    assert finding.share == pytest.approx((6 + 2) / 100, abs=1e-3)
    assert finding.severity is Severity.WARNING
    assert "8 % of the step (8 % for dropout)" in finding.summary
    assert "Set dropout to 0" in finding.advice
    assert finding.evidence["dropout_calls_per_step"] == 1


@pytest.mark.parametrize(
    ("us", "severity"),
    [
        (2100, Severity.INFO),
        (4900, Severity.INFO),
        (5100, Severity.WARNING),
        (24_900, Severity.WARNING),
        (25_100, Severity.CRITICAL),
    ],
)
def test_the_severity_follows_the_cost(us: float, severity: Severity) -> None:
    assert [finding.severity for finding in check(on_cpu(*dropout(0, us)))] == [severity]


def test_dropout_inside_of_attention_is_counted_by_slow_attention_only() -> None:
    math = [op(0, 20_000, "aten::_scaled_dot_product_attention_math"), *dropout(100, 15_000)]
    assert check(on_cpu(*math)) == []
    (slow,) = SlowAttention().check(on_cpu(*math))
    (both,) = check(on_cpu(*math, *dropout(50_000, 10_000)))
    assert both.share == pytest.approx(0.1)
    assert slow.share is not None
    assert both.share is not None
    assert slow.share + both.share <= 0.3 + 1e-9


def test_random_numbers_that_no_dropout_draws_are_told_apart() -> None:
    (finding,) = check(on_cpu(op(0, 9000, "aten::randn_like"), op(10, 8000, "aten::normal_")))
    assert finding.share == pytest.approx(0.09)
    assert "9 % for other random draws" in finding.summary
    assert "Draw fewer random numbers" in finding.advice
    assert finding.where.op == "random draws"


def test_what_the_loader_draws_is_not_the_steps() -> None:
    assert check(on_cpu(fetch(0, 20_000), op(10, 19_000, "aten::randperm"))) == []


def test_layers_and_their_probabilities_are_named() -> None:
    layers = (DropoutLayer("blocks.0.dropout", 0.1), DropoutLayer("blocks.1.dropout", 0.2))
    (finding,) = check(on_cpu(*dropout(0, 9000), settings=settings(dropouts=layers, num_dropouts=30)))
    assert finding.where.module == "blocks.0.dropout and 29 more"
    assert "(p=0.1, 0.2 now)" in finding.advice


def test_on_a_device_its_kernels_count_and_it_is_to_be_fused() -> None:
    events = [op(0, 50, "aten::native_dropout"), call(5, 5, correlation=1), kernel(100, 10_000, correlation=1)]
    (finding,) = check(Evidence(trace=step_trace(*events), missing=TRACE_ALONE))
    assert finding.share == pytest.approx(0.1)
    assert "torch.compile" in finding.advice
