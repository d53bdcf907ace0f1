from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.host_sync import HostSync
from lightning_perfwatch.rules.logging_sync import LoggingSync
from lightning_perfwatch.sync_sites import SyncSite, SyncSites
from tests.rules.factories import evidence, on_gpu, sync_site
from tests.trace.factories import call, copy, kernel, op, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(LoggingSync().check(found))


def audited(*sites: SyncSite, **changes: object) -> Evidence:
    return evidence(syncs=SyncSites(2, sites), **changes)


def logged(**changes: object) -> SyncSite:
    return sync_site(owner="lightning", **{"file": None, "line": None, "code": None, **changes})


def test_silent_without_calls_of_lightnings() -> None:
    assert check(audited()) == []
    assert check(audited(sync_site(), logged(in_every_step=False))) == []


def test_skipped_without_an_audit() -> None:
    assert LoggingSync().skip_reason(evidence(syncs=None)) == "no step was audited for calls that wait for the device"


def test_on_a_cpu_it_is_information_with_what_it_costs_here() -> None:
    (finding,) = check(audited(logged(), logged(call=".cpu()")))
    assert finding.severity is Severity.INFO
    assert finding.share == pytest.approx(8e-6 / 0.1, rel=0.01)
    assert "2 times per step" in finding.summary
    assert "on this CPU that takes 8 µs" in finding.summary
    assert "prog_bar=True" in finding.advice


class TestOnAGpu:
    def idling(self, *sites: SyncSite) -> Evidence:
        """Steps of 1000 µs with a synchronising copy, after which the device idles for 300 µs."""
        events = []
        for number in range(4):
            begin, first = 1000.0 * number, 10 * number + 1
            events += [step(number, begin, 1000), op(begin, 990, "aten::mm")]
            events += [call(begin + 10, 5, correlation=first), kernel(begin + 15, 600, correlation=first)]
            events += [call(begin + 20, 890, "cudaMemcpyAsync", correlation=first + 1)]
            events += [copy(begin + 615, 5, "DtoH (Device -> Pageable)", correlation=first + 1)]
            events += [call(begin + 915, 5, correlation=first + 2), kernel(begin + 920, 80, correlation=first + 2)]
        return audited(*sites, run=on_gpu(), trace=trace(*events))

    def test_calls_on_cpu_tensors_wait_for_nothing(self) -> None:
        assert check(audited(logged(), run=on_gpu())) == []

    def test_without_a_trace_the_cost_is_not_known(self) -> None:
        (finding,) = check(audited(logged(device_type="cuda"), run=on_gpu()))
        assert (finding.severity, finding.share) == (Severity.INFO, None)
        assert "not measured" in finding.summary

    def test_the_idle_time_because_of_waiting_is_its_cost(self) -> None:
        (finding,) = check(self.idling(logged(device_type="cuda")))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.3, abs=0.02)

    def test_it_shares_that_cost_with_the_users_calls(self) -> None:
        mine, theirs = (
            logged(device_type="cuda", s_per_step=1e-4),
            sync_site(device_type="cuda", call=".cpu()", s_per_step=3e-4),
        )
        found = self.idling(mine, theirs)
        (logging,), (user,) = check(found), list(HostSync().check(found))
        assert logging.share is not None and user.share is not None
        assert user.share == pytest.approx(3 * logging.share)
        assert user.share + logging.share == pytest.approx(0.3, abs=0.02)

    def test_what_perfwatch_itself_reads_has_no_part_in_it(self) -> None:
        mine = logged(device_type="cuda", s_per_step=1e-4)
        own = sync_site(device_type="cuda", owner="perfwatch", s_per_step=3e-4)
        (alone,), (beside,) = check(self.idling(mine)), check(self.idling(mine, own))
        assert alone.share == beside.share
