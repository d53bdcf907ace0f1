from __future__ import annotations

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.exposed_communication import ExposedCommunication
from lightning_perfwatch.rules.straggler_rank import StragglerRank
from tests.rules.factories import evidence, on_gpu, rank_summary, run_info
from tests.trace.factories import annotation, call, kernel, op, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(ExposedCommunication().check(found))


def exchanging(length: float, name: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **known: object) -> Evidence:
    """A step of 100 µs whose exchange of 10 µs and ``length`` is hidden for 10 µs."""
    recorded = trace(
        step(1, 0, 100), kernel(0, 100 - length), kernel(90 - length, 10 + length, name, stream=20)
    )  # fmt: skip
    return Evidence(trace=recorded, missing=TRACE_ALONE, **known)  # type: ignore[arg-type]


def exchanging_on_host(exposed: float, name: str = "gloo:all_reduce") -> Evidence:
    """A step of 100 µs without a device, whose exchange goes on for ``exposed`` after 10 µs beside an operator."""
    recorded = trace(step(1, 0, 100), op(0, 40), annotation(name, 30, 10 + exposed, tid=7), op(95, 5))
    return Evidence(trace=recorded, missing=TRACE_ALONE)


def test_silent_when_it_is_hidden() -> None:
    assert check(exchanging(4)) == []


def test_skipped_where_the_trace_shows_neither_a_device_nor_an_exchange() -> None:
    several = evidence(trace=trace(step(1, 0, 100), op(0, 50)), run=run_info(world_size=2))
    assert "no device" in str(ExposedCommunication().skip_reason(several))
    seen = evidence(trace=exchanging_on_host(10).trace, run=run_info(world_size=2))
    assert ExposedCommunication().skip_reason(seen) is None
    assert ExposedCommunication().skip_reason(Evidence()) == "no trace was recorded"


@pytest.mark.parametrize(("length", "fires"), [(4.9, False), (5.1, True)])
def test_fires_from_five_percent_on(length: float, fires: bool) -> None:
    assert bool(check(exchanging(length))) is fires


@pytest.mark.parametrize(("exposed", "fires"), [(0, False), (9.9, False), (10.1, True)])
def test_on_the_host_from_ten_percent_on(exposed: float, fires: bool) -> None:
    assert bool(check(exchanging_on_host(exposed))) is fires


def test_on_the_host_it_says_that_the_training_waits() -> None:
    (finding,) = check(exchanging_on_host(30))
    assert finding.severity is Severity.CRITICAL
    assert finding.share == pytest.approx(0.3)
    assert finding.share_is == "lower bound"
    assert "30 % of the time the training only exchanges data" in finding.summary
    assert "25 % of its communication is hidden" in finding.summary
    assert finding.where.op == "gloo:all_reduce"
    assert finding.evidence["device"] is None


def test_where_there_is_a_device_the_host_s_exchange_is_not_counted() -> None:
    recorded = trace(step(1, 0, 100), kernel(0, 100), annotation("gloo:all_reduce", 40, 50, tid=7))
    assert check(Evidence(trace=recorded, missing=TRACE_ALONE)) == []


def test_a_device_that_the_trace_does_not_show_may_compute_meanwhile() -> None:
    unseen = evidence(trace=exchanging_on_host(30).trace, run=on_gpu(world_size=2))
    assert "no device" in str(ExposedCommunication().skip_reason(unseen))
    assert check(unseen) == []
    launching = trace(step(1, 0, 100), call(0, 5), op(0, 40), annotation("gloo:all_reduce", 30, 40, tid=7))
    assert check(Evidence(trace=launching, missing=TRACE_ALONE)) == []


def test_says_how_much_is_hidden_and_what_to_exchange_less() -> None:
    (finding,) = check(exchanging(10))
    assert finding.severity is Severity.WARNING
    assert finding.share == pytest.approx(0.1)
    assert finding.share_is == "upper bound"
    assert "50 % of its communication is hidden" in finding.summary
    assert finding.where.op == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    assert "accumulate_grad_batches=2" in finding.advice


def test_where_it_is_most_of_the_step_another_rank_may_be_late() -> None:
    (finding,) = check(exchanging(60))
    assert finding.severity is Severity.CRITICAL
    assert finding.advice.startswith("Compare the ranks first")


def test_what_is_no_reduction_of_gradients_has_another_fix() -> None:
    (finding,) = check(exchanging(10, "ncclDevKernel_SendRecv"))
    assert "async_op=True" in finding.advice


def test_it_is_not_reported_beside_the_rank_that_is_late() -> None:
    late = (rank_summary(0, waiting_s=0.06), rank_summary(1, waiting_s=0.0, data_wait=0.06))
    found = diagnose(exchanging(60, ranks=late), [ExposedCommunication(), StragglerRank()])
    assert [finding.rule for finding in found.findings] == ["straggler-rank"]
