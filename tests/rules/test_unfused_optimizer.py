from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.unfused_optimizer import UnfusedOptimizer
from lightning_perfwatch.settings import OptimizerSettings
from tests.rules.factories import evidence, healthy_trace, settings, step_trace
from tests.trace.factories import Json, call, kernel, op, optimizer_step


def check(found: Evidence) -> list[Finding]:
    return list(UnfusedOptimizer().check(found))


def loop(us: float, name: str = "AdamW", num_ops: int = 20, operator: str = "aten::mul_") -> list[Json]:
    each = us / num_ops
    calls = [op(50_000 + each * at, each * 0.9, operator) for at in range(num_ops)]
    return [optimizer_step(50_000, us, f"{name}.step"), *calls]


def on_cpu(*events: Json, **changes: object) -> Evidence:
    return evidence(trace=step_trace(*events), **changes)


def told(**changes: object) -> OptimizerSettings:
    return OptimizerSettings(**{"name": "AdamW", "is_torchs": True, "num_parameter_tensors": 50, **changes})  # type: ignore[arg-type]


def test_silent_where_it_is_fused_or_foreach_or_hardly_called() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(on_cpu(*loop(40_000, operator="aten::_fused_adamw_"))) == []
    assert check(on_cpu(*loop(40_000, operator="aten::_foreach_mul_"))) == []
    assert check(on_cpu(*loop(40_000, num_ops=9))) == []
    assert check(on_cpu(optimizer_step(0, 40_000))) == []  # compiled, as a whole


def test_silent_where_torch_has_nothing_better() -> None:
    assert check(on_cpu(*loop(40_000, "Lion"))) == []
    assert check(on_cpu(*loop(40_000, "RMSprop"))) == []  # foreach is no faster on a CPU
    own = settings(optimizers=(told(is_torchs=False),))
    assert check(on_cpu(*loop(40_000), settings=own)) == []


def test_skipped_without_a_trace() -> None:
    assert UnfusedOptimizer().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_a_loop_costs_what_the_fused_one_would_save() -> None:
    (finding,) = check(on_cpu(*loop(20_000), settings=settings(optimizers=(told(),))))
    assert finding.share == pytest.approx(0.2 * 0.7)
    assert finding.share_is == "estimate"
    assert finding.severity is Severity.WARNING
    assert "20 operators of 50 tensors take 20.0 % of the step, and fused=True would save 14.0 %" in finding.summary
    assert finding.advice == "Write torch.optim.AdamW(..., fused=True)."
    assert finding.where.op == "AdamW.step"


def test_who_chose_the_loop_is_told() -> None:
    (finding,) = check(on_cpu(*loop(20_000), settings=settings(optimizers=(told(foreach=False),))))
    assert "one by one (it was told foreach=False)" in finding.summary


@pytest.mark.parametrize(
    ("us", "severity"),
    [(1400, None), (1500, Severity.INFO), (7000, Severity.INFO), (7300, Severity.WARNING), (36_000, Severity.CRITICAL)],
)
def test_the_severity_follows_what_would_be_saved(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(on_cpu(*loop(us)))]
    assert found == ([] if severity is None else [severity])


def test_each_class_is_judged() -> None:
    sgd = [optimizer_step(10_000, 20_000, "SGD.step"), *(op(10_000 + 900 * at, 800, "aten::add_") for at in range(20))]
    found = check(on_cpu(*loop(20_000), *sgd))
    assert {(finding.where.op, round(finding.share or 0, 2)) for finding in found} == {
        ("AdamW.step", 0.14),
        ("SGD.step", 0.10),
    }


def test_on_a_device_the_time_from_the_first_to_the_last_kernel_counts() -> None:
    events: list[Json] = [optimizer_step(0, 4000, "RMSprop.step")]
    for at in range(20):
        events += [op(200 * at, 100, "aten::mul_"), call(200 * at + 5, 5, correlation=at + 1)]
        events.append(kernel(10_000 + 1000 * at, 10, correlation=at + 1))
    (finding,) = check(Evidence(trace=step_trace(*events), missing=TRACE_ALONE))
    assert finding.share == pytest.approx(0.1901 * 0.9, abs=1e-3)
    assert finding.advice == "Write torch.optim.RMSprop(..., foreach=True)."
