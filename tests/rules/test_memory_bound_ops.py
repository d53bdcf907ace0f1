from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.memory_bound_ops import MemoryBoundOps
from tests.rules.factories import evidence, healthy_trace, node, step_trace
from tests.trace.factories import Json, call, frame, kernel, op

GELU = ("mul", "pow", "mul", "add", "mul", "tanh", "add", "mul")
RMS_NORM = ("pow", "mean", "add", "rsqrt", "mul", "mul")


def check(found: Evidence) -> list[Finding]:
    return list(MemoryBoundOps().check(found))


def calls(*names: str, us: float = 2000, start: float = 0) -> list[Json]:
    return [op(start + us * at, us, f"aten::{name}") for at, name in enumerate(names)]


def on_cpu(*events: Json) -> Evidence:
    return evidence(trace=step_trace(*events))


def test_silent_on_a_healthy_run_and_on_single_operators() -> None:
    assert check(evidence(trace=healthy_trace())) == []
    assert check(on_cpu(*calls("mul", "add", "mul", us=9000))) == []
    assert check(on_cpu(*calls("mul", "add", "addmm", "mul", "add", us=9000))) == []


def test_skipped_without_a_trace() -> None:
    assert MemoryBoundOps().skip_reason(evidence(trace=None)) == "no trace was recorded"


def test_a_handwritten_gelu_keeps_the_time_of_its_most_expensive_operator() -> None:
    events = [*calls(*GELU), op(15_999, 1, "aten::empty")]
    events[5] = op(10_000, 2000, "aten::tanh")
    (finding,) = check(on_cpu(*events))
    assert finding.share == pytest.approx(0.14, abs=1e-3)  # 8 operators of 2 ms, of which one is left
    assert finding.share_is == "estimate"
    assert finding.severity is Severity.WARNING
    assert finding.evidence["chain_share"] == pytest.approx(0.16, abs=1e-3)
    assert "A handwritten GELU of 8 operators" in finding.summary
    assert "takes 16 % of the step; fused it would take 2 %" in finding.summary
    assert 'gelu(x, approximate="tanh")' in finding.advice
    assert finding.where.op == "mul > pow > mul > add > mul > tanh > add > mul"


def test_the_backward_pass_is_lost_in_the_same_part() -> None:
    backward = node("TanhBackward0", 50_000, 16_000, "aten::tanh_backward")
    (finding,) = check(on_cpu(*calls(*GELU), *backward))
    assert finding.share == pytest.approx(0.32 * 7 / 8, abs=1e-3)


@pytest.mark.parametrize(
    ("names", "told", "advice"),
    [
        (RMS_NORM, "A handwritten RMS norm", "@torch.compile"),
        (("mean", "sub", "pow", "mean", "add", "sqrt", "div"), "A handwritten layer norm", "layer_norm"),
        (("div", "erf", "add", "mul"), "A handwritten GELU", "gelu(x)"),
        (("sub", "exp", "sum", "div"), "A handwritten softmax", "torch.softmax"),
        (("mul", "add", "sin", "mul"), "A chain of 4 operators", "@torch.compile"),
    ],
)
def test_what_it_computes_and_what_to_use_instead(names: tuple[str, ...], told: str, advice: str) -> None:
    (finding,) = check(on_cpu(*calls(*names, us=3000)))
    assert told in finding.summary
    assert advice in finding.advice


@pytest.mark.parametrize(("costly", "saved"), [("tanh", 0.3), ("exp", 0.75)])
def test_only_an_operator_that_computes_leaves_more_than_the_mean_one(costly: str, saved: float) -> None:
    events = [op(0, 14_000, f"aten::{costly}"), *calls("mul", "add", "mul", us=2000, start=14_000)]
    (finding,) = check(on_cpu(*events))
    assert finding.share == pytest.approx(0.2 * saved)


@pytest.mark.parametrize(("us", "severity"), [(990, None), (1100, Severity.INFO), (1700, Severity.WARNING)])
def test_the_severity_follows_what_would_be_saved(us: float, severity: Severity | None) -> None:
    found = [finding.severity for finding in check(on_cpu(*calls("mul", "add", "sin", "mul", us=us)))]
    assert found == ([] if severity is None else [severity])


def test_many_tiny_operators_are_bound_by_their_calls_and_not_by_memory() -> None:
    tiny = [event for at in range(100) for event in calls("mul", "add", "sin", "mul", us=19, start=900 * at)]
    apart = [op(900 * at + 500, 10, "aten::addmm") for at in range(100)]
    assert check(on_cpu(*tiny, *apart)) == []
    assert len(list(MemoryBoundOps(min_host_op_us=18).check(on_cpu(*tiny, *apart)))) == 1


def test_attention_and_dropout_are_left_to_their_rules() -> None:
    attention = calls("bmm", "div", "add", "mul", "sub", "_softmax", "bmm", us=5000)
    assert check(on_cpu(*attention)) == []
    assert check(on_cpu(*calls("mul", "dropout", "mul", "add", us=9000))) == []


def test_only_the_most_expensive_chains_are_told() -> None:
    events = []
    for at, name in enumerate(("sin", "cos", "exp", "log", "abs")):
        events += calls("mul", "add", name, "mul", us=2000 + 100 * at, start=19_000 * at)
        events.append(op(19_000 * at + 18_000, 5))
    found = check(on_cpu(*events))
    assert [finding.where.op for finding in found] == [f"mul > add > {name} > mul" for name in ("abs", "log", "exp")]


def test_the_users_line_is_given_where_the_trace_has_frames() -> None:
    (finding,) = check(on_cpu(frame("/home/me/model.py(42): forward", 0, 30_000), *calls(*GELU)))
    assert (finding.where.file, finding.where.line) == ("/home/me/model.py", 42)


def test_kernels_count_on_a_device() -> None:
    events = []
    for at, name in enumerate(RMS_NORM):
        events += [op(100 * at, 90, f"aten::{name}"), call(100 * at + 5, 5, correlation=at + 1)]
        events.append(kernel(1000 + 4000 * at, 4000, correlation=at + 1))
    (finding,) = check(Evidence(trace=step_trace(*events), missing=TRACE_ALONE))
    assert finding.share == pytest.approx(0.2)  # of 24 ms one operator's 4 ms are left
    assert "rms_norm" in finding.advice
