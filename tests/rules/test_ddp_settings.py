from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import DataParallelism, MemoryUse
from lightning_perfwatch.rules.ddp_settings import DdpSettings
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, on_gpu, resources, run_info
from tests.trace.factories import Json, kernel, op, optimizer_step, step, trace

GIB = 2**30


def wrapped(run: Any = None, capacity_bytes: int | None = None, **changes: Any) -> Evidence:
    """A run of two processes in DistributedDataParallel."""
    usual = {
        "wrapper": "DistributedDataParallel", "backend": "gloo", "find_unused_parameters": False,
        "static_graph": False, "gradient_as_bucket_view": False, "parameter_bytes": GIB, "unused_parameter_bytes": 0,
    }  # fmt: skip
    recorded = changes.pop("trace", None)
    memory = None if capacity_bytes is None else MemoryUse("cuda", GIB, capacity_bytes=capacity_bytes)
    there = resources(parallelism=DataParallelism(**{**usual, **changes}), memory=memory)
    return evidence(run=run or run_info(world_size=2), resources=there, trace=recorded)


def exchanging(start: float) -> list[Json]:
    node = op(start, 20, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")
    return [node, op(start, 10, "c10d::allreduce_")]


def accumulating(*others: Json) -> Trace:
    """Two steps that exchange gradients, of which one has a step of the optimizer."""
    return trace(
        step(1, 0, 100), *exchanging(10), step(2, 100, 100), *exchanging(110), optimizer_step(140, 20), *others
    )


def check(found: Evidence) -> list[Finding]:
    return list(DdpSettings().check(found))


def test_silent_with_one_process_and_with_settings_that_fit() -> None:
    assert check(evidence()) == []
    assert DdpSettings().skip_reason(evidence()) is None
    assert check(wrapped()) == []
    assert check(wrapped(on_gpu(world_size=2), backend="nccl", capacity_bytes=80 * GIB)) == []


def test_skipped_where_the_wrapper_does_not_tell() -> None:
    unread = resources(missing={"parallelism": "no answer"})
    assert DdpSettings().skip_reason(evidence(resources=unread)) == "no answer"
    assert DdpSettings().skip_reason(Evidence())


def test_a_search_that_finds_nothing_is_information() -> None:
    (finding,) = check(wrapped(find_unused_parameters=True))
    assert (finding.severity, finding.share) == (Severity.INFO, None)
    assert finding.advice == 'Use strategy="ddp" without find_unused_parameters=True.'


@pytest.mark.parametrize(("search_us", "severity"), [(1, Severity.INFO), (6, Severity.WARNING)])
def test_on_a_cpu_the_trace_tells_what_the_search_costs(search_us: float, severity: Severity) -> None:
    search = op(20, search_us, "torch.distributed.ddp.reducer::search_unused_parameters")
    (finding,) = check(wrapped(find_unused_parameters=True, trace=trace(step(1, 0, 100), search)))
    assert finding.severity is severity
    assert finding.share == pytest.approx(search_us / 100)
    assert finding.share_is == "lower bound"
    hidden = trace(step(1, 0, 100), search, kernel(0, 100))
    (finding,) = check(wrapped(on_gpu(world_size=2), backend="nccl", find_unused_parameters=True, trace=hidden))
    assert (finding.severity, finding.share) == (Severity.INFO, None)


@pytest.mark.parametrize("changes", [{"unused_parameter_bytes": 64}, {"unused_parameter_bytes": None}])
def test_a_search_that_finds_something_or_has_not_begun_is_none(changes: dict[str, Any]) -> None:
    assert check(wrapped(find_unused_parameters=True, **changes)) == []


def test_a_static_graph_is_searched_once() -> None:
    assert check(wrapped(find_unused_parameters=True, static_graph=True)) == []


def test_gpus_that_exchange_through_the_host() -> None:
    (finding,) = check(wrapped(on_gpu(world_size=2), backend="gloo"))
    assert finding.severity is Severity.WARNING
    assert 'process_group_backend="nccl"' in finding.advice


@pytest.mark.parametrize(("capacity_gib", "fires"), [(20, True), (21, False)])
def test_a_second_copy_of_the_gradients_matters_where_memory_is_short(capacity_gib: int, fires: bool) -> None:
    found = check(wrapped(on_gpu(world_size=2), backend="nccl", capacity_bytes=capacity_gib * GIB))
    assert [finding.advice for finding in found] == ["Use DDPStrategy(gradient_as_bucket_view=True)."] * fires
    assert check(wrapped(on_gpu(), backend="nccl", capacity_bytes=GIB, gradient_as_bucket_view=True)) == []


def test_one_process_that_serves_several_devices() -> None:
    (finding,) = check(evidence(resources=resources(parallelism=DataParallelism("DataParallel"))))
    assert finding.severity is Severity.WARNING
    assert 'strategy="ddp"' in finding.advice


def test_gradients_that_are_exchanged_for_nothing() -> None:
    work = [kernel(0, 60), kernel(60, 40, "ncclDevKernel_AllReduce"), kernel(100, 100)]
    (finding,) = check(Evidence(trace=accumulating(*work), missing=TRACE_ALONE))
    assert finding.share == pytest.approx(0.1)
    assert finding.severity is Severity.WARNING
    assert finding.summary.startswith("In 1 of 2 steps gradients are exchanged")
    assert "no_sync()" in finding.advice


def test_on_a_cpu_the_wrapper_tells_what_an_exchange_costs() -> None:
    assert check(wrapped(trace=accumulating(), exposed_s=0.02))[0].share == pytest.approx(0.1, rel=0.02)
    (unknown,) = check(wrapped(trace=accumulating()))
    assert (unknown.severity, unknown.share) == (Severity.INFO, None)


def test_a_trace_without_an_optimizer_tells_nothing() -> None:
    assert check(Evidence(trace=trace(step(1, 0, 100), *exchanging(10)), missing=TRACE_ALONE)) == []
