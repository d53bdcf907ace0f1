from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Resources
from lightning_perfwatch.rules.cpu_oversubscription import CpuOversubscription
from lightning_perfwatch.rules.step_jitter import StepJitter
from tests.rules.factories import evidence, on_gpu, processor_use, resources
from tests.rules.test_step_jitter import stalling
from tests.trace.factories import kernel, step, trace


def used(delayed_s: float = 5.0, **changes: Any) -> Evidence:
    """A run of 20 s on four CPUs, of which the thread that trains waits for ``delayed_s``."""
    processors = processor_use(delayed_s=delayed_s, **changes)
    return evidence(resources=resources(processors=processors))


def check(found: Evidence) -> list[Finding]:
    return list(CpuOversubscription().check(found))


def test_silent_where_each_thread_has_its_cpu() -> None:
    assert check(evidence()) == []
    assert check(used(0.3, workers_s=10.0, others_s=5.0)) == []


def test_silent_where_nobody_is_known_to_want_more() -> None:
    assert check(used(others_s=None)) == []
    assert check(used(others_s=0.0)) == []


def test_skipped_where_the_kernel_does_not_tell_or_steps_are_few() -> None:
    rule = CpuOversubscription()
    unread = Resources(missing={"processors": "the kernel says no"})
    assert rule.skip_reason(evidence(resources=unread)) == "the kernel says no"
    assert rule.skip_reason(evidence(resources=Resources())) == "processors: not read"
    assert "9 steady steps" in str(rule.skip_reason(used(num_steps=9)))
    assert "0.5 s are too few" in str(rule.skip_reason(used(wall_s=0.5)))
    assert rule.skip_reason(Evidence()) == "what the run has of its machine was not read"


def test_more_threads_than_cpus() -> None:
    (finding,) = check(used(6.0, num_threads=16, others_s=0.0))
    assert finding.severity is Severity.CRITICAL
    assert finding.share == pytest.approx(0.3)
    assert finding.summary == (
        "16 threads for one operator share 4 CPUs: the thread that trains is ready but has no CPU for 30 % of the time."
    )
    assert finding.advice == "Set torch.set_num_threads(4), or OMP_NUM_THREADS=4 before the start: one thread per CPU."
    assert finding.evidence["num_threads"] == 16


@pytest.mark.parametrize(("delayed_s", "fires"), [(0.99, False), (1.01, True)])
def test_fires_from_five_percent_on(delayed_s: float, fires: bool) -> None:
    found = check(used(delayed_s, num_threads=8, others_s=0.0))
    assert [finding.severity for finding in found] == [Severity.WARNING] * fires


def test_processes_share_the_cpus() -> None:
    (finding,) = check(used(num_threads=4, num_processes=2, others_s=0.0))
    assert finding.summary.startswith("2 processes with 4 threads for each operator share 4 CPUs")
    assert "torch.set_num_threads(2)" in finding.advice
    (finding,) = check(used(num_threads=1, num_processes=8, others_s=0.0))
    assert finding.advice == "Train with devices=4 on this machine: one thread per CPU."


def test_what_others_use_is_only_information() -> None:
    (finding,) = check(used(10.0, others_s=40.0))
    assert finding.severity is Severity.INFO
    assert finding.summary.startswith("Other programs keep 2.0 of 4 CPUs busy, and the thread that trains waits")
    assert "torch.set_num_threads(2) leaves them their part" in finding.advice
    assert check(used(1.9, others_s=40.0)) == []


def test_the_waiting_is_given_out_by_who_wants_how_many_cpus() -> None:
    threads, others = check(used(10.0, num_threads=6, others_s=40.0))
    assert (threads.severity, others.severity) == (Severity.CRITICAL, Severity.INFO)
    assert threads.share == others.share == pytest.approx(0.25)
    assert (threads.share_is, others.share_is) == ("estimate", "lower bound")
    assert "torch.set_num_threads(2)" in threads.advice  # as many as the others leave


def test_workers_that_compute_on_the_same_cpus_are_information_on_a_cpu_run() -> None:
    (finding,) = check(used(4.0, workers_s=30.0, num_workers=2, others_s=0.0))
    assert finding.severity is Severity.INFO
    assert finding.summary.startswith("The loader's workers keep 1.5 of 4 CPUs busy")


def test_on_a_gpu_no_more_is_lost_than_the_device_is_idle() -> None:
    recorded = trace(step(1, 0, 100), kernel(0, 88))
    gpu = evidence(
        run=on_gpu(), trace=recorded, resources=resources(processors=processor_use(delayed_s=8.0, num_threads=64))
    )
    (finding,) = check(gpu)
    assert finding.share == pytest.approx(0.12)
    assert finding.severity is Severity.WARNING
    blind = evidence(run=on_gpu(), resources=gpu.resources)
    assert check(blind) == []


def test_stalls_are_a_symptom_of_it() -> None:
    ill = evidence(
        steps=stalling(300.0),
        resources=resources(processors=processor_use(delayed_s=6.0, num_threads=16, others_s=0.0)),
    )
    found = diagnose(ill, [StepJitter(), CpuOversubscription()]).findings
    assert [finding.rule for finding in found] == ["cpu-oversubscription"]
