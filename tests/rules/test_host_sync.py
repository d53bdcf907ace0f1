from __future__ import annotations

from pathlib import Path

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.host_sync import HostSync
from lightning_perfwatch.sync_sites import SyncSite, SyncSites
from lightning_perfwatch.trace import read_trace
from tests.rules.factories import evidence, on_gpu, sync_site
from tests.trace.factories import Json, call, frame, kernel, op, step, trace

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


def check(found: Evidence) -> list[Finding]:
    return list(HostSync().check(found))


def audited(*sites: SyncSite, **changes: object) -> Evidence:
    return evidence(syncs=SyncSites(2, sites), **changes)


def test_silent_without_calls() -> None:
    assert check(audited()) == []


@pytest.mark.parametrize(
    "site",
    [
        sync_site(owner="lightning"),
        sync_site(owner="optimizer"),
        sync_site(owner="torch", file=None, line=None),
        sync_site(owner="perfwatch", file=None, line=None),
        sync_site(in_every_step=False, calls_per_step=0.5),
        sync_site(file=None, line=None),
    ],
)
def test_silent_about_calls_that_are_not_the_users_or_not_in_every_step(site: SyncSite) -> None:
    assert check(audited(site)) == []


def test_skipped_without_an_audit() -> None:
    assert HostSync().skip_reason(evidence(syncs=None)) == "no step was audited for calls that wait for the device"


def test_an_item_in_each_step_is_a_warning_on_a_cpu_and_says_what_it_costs_here_and_there() -> None:
    (finding,) = check(audited(sync_site()))
    assert finding.severity is Severity.WARNING
    assert finding.share == pytest.approx(4e-6 / 0.1, rel=0.01)
    assert ".item() in training_step() makes the host wait for the device once in each step" in finding.summary
    assert "On this CPU that takes 4 µs of a step" in finding.summary
    assert "on a GPU every such call stalls" in finding.summary
    assert (finding.where.file, finding.where.line, finding.where.op) == ("/home/me/train.py", 12, "loss.item()")
    assert "detach()" in finding.advice


def test_a_call_that_eats_a_quarter_of_a_cpu_step_is_critical() -> None:
    assert check(audited(sync_site(s_per_step=0.024)))[0].severity is Severity.WARNING
    assert check(audited(sync_site(s_per_step=0.026)))[0].severity is Severity.CRITICAL


def test_each_line_is_a_finding_up_to_a_limit() -> None:
    sites = [sync_site(line=line) for line in range(9)]
    assert [finding.where.line for finding in check(audited(*sites))] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("bool(tensor)", "torch.where"),
        (".nonzero()", "fixed-size"),
        ("indexing with a boolean mask", "fixed-size"),
        (".cpu()", "copy them once"),
        (".item()", "every 50 steps"),
    ],
)
def test_the_advice_fits_the_call(call: str, advice: str) -> None:
    assert advice in check(audited(sync_site(call=call)))[0].advice


class TestOnAGpu:
    def test_calls_on_cpu_tensors_wait_for_nothing(self) -> None:
        assert check(audited(sync_site(device_type="cpu"), run=on_gpu())) == []

    def test_without_a_trace_the_cost_is_not_known(self) -> None:
        (finding,) = check(audited(sync_site(device_type="cuda"), run=on_gpu()))
        assert finding.severity is Severity.INFO
        assert finding.share is None
        assert "not measured" in finding.summary

    @pytest.mark.skipif(not TRACES.is_dir(), reason="the folder with real GPU traces is not here")
    def test_the_severity_follows_the_idle_time_of_the_device(self) -> None:
        trace = read_trace(TRACES / "gpu_bound_cuda_graphs_rtx3060.pt.trace.json.gz")
        (finding,) = check(audited(sync_site(device_type="cuda", call=".cpu()"), run=on_gpu(), trace=trace))
        assert finding.severity is Severity.INFO  # a busy device: the wait costs nothing
        assert finding.share is not None
        assert finding.share < 0.05

    def test_several_lines_share_one_cost(self) -> None:
        sites = [sync_site(device_type="cuda", line=line) for line in (3, 5)]
        (finding,) = check(audited(*sites, run=on_gpu()))
        assert "(1 more such line)" in finding.summary
        assert [site["line"] for site in finding.evidence["sites"]] == [3, 5]


class TestInABareTrace:
    def waiting(self, idle_us: float, *more: Json) -> Evidence:
        """Steps of 1000 µs: the host waits for a kernel of 600 µs and comes back with the rest ``idle_us`` later."""
        events: list[Json] = []
        for number in range(4):
            begin, first = 1000.0 * number, 10 * number + 1
            again = begin + 615 + idle_us
            events += [step(number, begin, 1000), op(begin, 990, "aten::item")]
            events += [call(begin + 10, 5, correlation=first), kernel(begin + 15, 600, correlation=first)]
            events.append(call(begin + 20, again - begin - 20, "cudaStreamSynchronize"))
            events += [call(again, 5, correlation=first + 2), kernel(again + 5, 380 - idle_us, correlation=first + 2)]
        return Evidence(trace=trace(*events, *more), missing=TRACE_ALONE)

    def test_the_exposed_idle_time_is_the_cost(self) -> None:
        (finding,) = check(self.waiting(300))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.3, abs=0.02)
        assert "waits for the GPU once per step, mostly in aten::item" in finding.summary
        assert finding.where.op == "aten::item"

    def test_it_is_information_where_it_costs_little_and_nothing_where_it_costs_nothing(self) -> None:
        assert [finding.severity for finding in check(self.waiting(20))] == [Severity.INFO]
        assert check(self.waiting(3)) == []

    def test_stacks_tell_the_line(self) -> None:
        (finding,) = check(self.waiting(300, frame("train.py(31): training_step", 0, 4000)))
        assert (finding.where.file, finding.where.line) == ("train.py", 31)

    def test_skipped_without_a_device(self) -> None:
        host_only = Evidence(trace=trace(step(1, 0, 100), op(0, 50, "aten::item")), missing=TRACE_ALONE)
        assert "without a device" in str(HostSync().skip_reason(host_only))
