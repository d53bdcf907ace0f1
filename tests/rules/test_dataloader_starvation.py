from __future__ import annotations

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.dataloader_starvation import DataloaderStarvation
from tests.rules.factories import epoch_starts, evidence, loader, on_gpu, probe, run_info, step_times
from tests.trace.factories import Json, annotation, call, kernel, op, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(DataloaderStarvation().check(found))


def starving(wait_ms: float = 100.0, workers: int = 0, **changes: object) -> Evidence:
    return evidence(steps=step_times(data_wait=wait_ms), loader=loader(num_workers=workers), **changes)


def test_silent_when_the_wait_is_small() -> None:
    assert check(starving(wait_ms=4.0)) == []


def test_silent_when_the_step_is_so_short_that_no_worker_can_help() -> None:
    tiny = step_times(data_wait=0.4, forward=0.3, backward=0.3, optimizer=0.2, callbacks=0.1, other=0.1)
    assert check(evidence(steps=tiny)) == []


def test_skipped_without_steps_and_with_too_few() -> None:
    assert DataloaderStarvation().skip_reason(Evidence())
    assert "2 steady steps" in str(DataloaderStarvation().skip_reason(evidence(steps=step_times(2))))


@pytest.mark.parametrize(("wait_ms", "fires"), [(5.2, False), (5.3, True)])
def test_fires_from_five_percent_on(wait_ms: float, fires: bool) -> None:
    assert bool(check(starving(wait_ms))) is fires  # the rest of the step takes 99.7 ms


@pytest.mark.parametrize(("wait_ms", "severity"), [(33.0, Severity.WARNING), (33.4, Severity.CRITICAL)])
def test_is_critical_from_a_quarter_of_the_step_on(wait_ms: float, severity: Severity) -> None:
    assert check(starving(wait_ms))[0].severity is severity


def test_says_how_many_workers_hide_the_load_time() -> None:
    finding = check(starving(wait_ms=150.0))[0]
    assert finding.share == pytest.approx(150 / 249.7, rel=1e-3)
    assert "150.0 ms of each 249.7 ms step (60 %)" in finding.summary
    assert "num_workers=0" in finding.summary
    assert "num_workers=2" in finding.advice  # 150 ms of loading behind 99.7 ms of training
    assert "persistent_workers=True" in finding.advice


def test_a_wait_is_all_that_can_be_gained_and_an_estimate_where_too_few_workers_fit() -> None:
    assert check(starving())[0].share_is == "upper bound"
    assert check(starving(wait_ms=1000.0, run=run_info(num_cpus=2)))[0].share_is == "estimate"


def test_one_worker_is_enough_for_loading_that_is_faster_than_the_step() -> None:
    assert "num_workers=1 " in check(starving(wait_ms=90.0))[0].advice.replace(",", " ")


def test_stays_within_the_cpus_that_may_be_used() -> None:
    finding = check(starving(wait_ms=1000.0, run=run_info(num_cpus=2)))[0]
    assert "num_workers=2" in finding.advice
    assert "10 would be needed" in finding.advice
    assert "400 ms of waiting would be left" in finding.advice  # 1000 / 2 - 99.7


def test_starving_workers_load_for_as_many_steps_as_there_are() -> None:
    finding = check(starving(wait_ms=150.0, workers=1))[0]  # each batch takes its worker 249.7 ms
    assert finding.evidence["load_s"] == pytest.approx(0.2497)
    assert "num_workers=3" in finding.advice


@pytest.mark.parametrize(
    ("wait_ms", "workers", "severity"),
    [
        (7.9, 2, Severity.INFO),  # 7.3 % of the step
        (8.1, 2, Severity.WARNING),
        (7.9, 0, Severity.WARNING),
    ],
)
def test_a_wait_in_which_a_batch_is_handed_over_is_information(
    wait_ms: float, workers: int, severity: Severity
) -> None:
    (finding,) = check(starving(wait_ms, workers=workers))
    assert finding.severity is severity
    assert ("hand their batches over" in finding.summary) is (severity is Severity.INFO)


def test_a_short_wait_is_a_warning_where_the_step_is_short_too() -> None:
    short = step_times(data_wait=5.0, forward=20.0, backward=10.0, optimizer=1.0, callbacks=0.1, other=0.1)
    (finding,) = check(evidence(steps=short, loader=loader(num_workers=2)))
    assert finding.severity is Severity.WARNING  # 14 % of it


def test_loading_that_is_as_fast_as_the_step_needs_no_second_worker() -> None:
    assert "num_workers=1 in" in check(starving(wait_ms=104.0))[0].advice
    assert "num_workers=2 in" in check(starving(wait_ms=106.0))[0].advice


def test_does_not_ask_for_more_workers_than_cpus() -> None:
    finding = check(starving(wait_ms=100.0, workers=4))[0]
    assert finding.advice.startswith("Make loading cheaper")
    assert "num_workers=" not in finding.advice


def test_names_collate_where_it_is_the_cause() -> None:
    slow_collate = probe(fetch_s=0.06, collate_s=0.24)
    finding = check(starving(wait_ms=300.0, load_probe=slow_collate, run=run_info(num_cpus=1)))[0]
    assert "80 % of it in collate_fn" in finding.summary
    assert str(finding.where) == "/home/me/data.py:30 · collate_fn"
    assert "make loading cheaper in collate_fn" in finding.advice


def test_names_the_dataset_where_loading_is_the_cause() -> None:
    finding = check(starving(load_probe=probe()))[0]
    assert "collate" not in finding.summary
    assert str(finding.where) == "/home/me/data.py:7 · dataset"


def test_starving_workers_have_the_place_of_the_dataset_too() -> None:
    known = loader(num_workers=2, dataset_file="/home/me/data.py", dataset_line=7)
    (finding,) = check(evidence(steps=step_times(data_wait=100.0), loader=known))
    assert str(finding.where) == "/home/me/data.py:7 · dataset"


def test_an_unknown_loader_gets_no_number() -> None:
    finding = check(evidence(steps=step_times(data_wait=100.0), loader=None))[0]
    assert "num_workers" not in finding.summary + finding.advice


def test_pinning_is_for_gpus_whose_copy_is_slow() -> None:
    slow_copy = step_times(data_wait=100.0, transfer=30.0)
    assert "pin_memory=True" in check(evidence(steps=slow_copy, run=on_gpu()))[0].advice
    assert "pin_memory" not in check(evidence(steps=slow_copy))[0].advice
    assert "pin_memory" not in check(evidence(steps=slow_copy, run=on_gpu(), loader=loader(pin_memory=True)))[0].advice
    assert "pin_memory" not in check(evidence(steps=step_times(data_wait=100.0), run=on_gpu()))[0].advice


def test_on_a_gpu_the_device_clock_counts() -> None:
    host_waits = step_times(data_wait=100.0)
    busy = step_times(on_device=True)
    assert busy.device_s is not None
    hidden = type(busy)(host_waits.host_s, busy.device_s)  # the host waits, but the device still has work
    assert check(evidence(steps=hidden, run=on_gpu())) == []


def test_short_epochs_that_start_workers_anew_are_the_cause() -> None:
    restarting = evidence(
        steps=step_times(data_wait=20.0),
        loader=loader(num_workers=4),
        epoch_starts=epoch_starts(0.5, 0.5, 0.5),
        wall_s={"training": 4.0, "epoch_start": 1.5},
    )
    assert [finding.rule for finding in diagnose(restarting).findings] == ["worker-restart"]


@pytest.mark.parametrize(
    ("cpu_s", "said"), [(0.095, "95 % of it computing"), (0.01, "90 % of it waiting"), (0.05, None), (None, None)]
)
def test_says_whether_the_cpu_computes_or_a_disk_is_waited_for(cpu_s: float | None, said: str | None) -> None:
    summary = check(starving(load_probe=probe(fetch_s=0.1, collate_s=0.0, cpu_s=cpu_s)))[0].summary
    assert (said is None and "of it" not in summary) or (said is not None and said in summary)


class TestWhatWorkersCanHide:
    """150 ms of loading beside 99.7 ms of training: two workers."""

    def share(self, cpu_s: float | None, **run: object) -> float | None:
        known = probe(fetch_s=0.15, collate_s=0.0, cpu_s=cpu_s)
        (finding,) = check(starving(wait_ms=150.0, load_probe=known, run=run_info(num_cpus=2, **run)))
        return finding.share

    def test_is_all_where_loading_only_waits(self) -> None:
        assert self.share(0.0) == pytest.approx(150 / 249.7, rel=1e-3)
        assert self.share(None) == pytest.approx(150 / 249.7, rel=1e-3)

    def test_is_less_where_workers_need_the_cpus_of_training(self) -> None:
        left_ms = 0.8 * 99.7 + 150 / 2 - 99.7
        assert self.share(0.15) == pytest.approx((150 - left_ms) / 249.7, rel=1e-3)

    def test_is_all_where_training_leaves_a_cpu_free_or_runs_on_a_gpu(self) -> None:
        assert self.share(0.15, num_threads=1) == pytest.approx(150 / 249.7, rel=1e-3)
        known = probe(fetch_s=0.15, collate_s=0.0, cpu_s=0.15)
        on_device = starving(wait_ms=150.0, load_probe=known, run=on_gpu(num_cpus=2))
        assert check(on_device)[0].share == pytest.approx(150 / 249.7, rel=1e-3)

    def test_is_less_where_there_are_too_few_cpus(self) -> None:
        (finding,) = check(starving(wait_ms=1000.0, run=run_info(num_cpus=2)))
        assert finding.share == pytest.approx((1000 - (500 - 99.7)) / 1099.7, rel=1e-3)


SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


class TestInABareTrace:
    def bare(self, *events: Json) -> Evidence:
        return Evidence(trace=trace(*events), missing=TRACE_ALONE)

    def on_device(self, fetch_us: float, name: str = SINGLE) -> Evidence:
        """Steps of 10 ms in which the device has nothing to do while data is fetched."""
        events: list[Json] = []
        for number in range(4):
            begin = 10_000.0 * number
            events += [step(number, begin, 10_000), annotation(name, begin, fetch_us)]
            events += [call(begin + fetch_us, 10, correlation=number + 1)]
            events += [kernel(begin + fetch_us + 10, 9_990 - fetch_us, correlation=number + 1)]
        return self.bare(*events)

    def test_idle_time_of_the_device_under_the_loader_counts(self) -> None:
        (finding,) = check(self.on_device(4_000))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.4, abs=0.01)
        assert "num_workers=0 loads every batch in the training process" in finding.summary
        assert "4.0 ms for each batch" in finding.summary
        assert "num_workers=1 in" in finding.advice
        assert finding.where.op == "_SingleProcessDataLoaderIter"

    def test_workers_that_starve_are_known_by_the_iterator(self) -> None:
        (finding,) = check(self.on_device(4_000, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"))
        assert "the workers can't keep up" in finding.summary
        assert finding.advice.startswith("Raise num_workers")

    @pytest.mark.parametrize(
        ("name", "cause"), [(SINGLE, "num_workers=0"), (SINGLE.replace("Single", "Multi"), "late")]
    )
    def test_one_late_batch_is_not_each_step(self, name: str, cause: str) -> None:
        steps = [step(number, 50_000.0 * number, 50_000) for number in range(5)]
        waits = [annotation(name, 50_000.0 * number, 45_000 if number == 2 else 10) for number in range(5)]
        (finding,) = check(self.bare(*steps, *waits))
        assert finding.severity is Severity.INFO
        assert "nearly all of it in 1 of 5 steps (#2)" in finding.summary
        assert cause in finding.summary
        assert "each batch" not in finding.summary

    def test_silent_when_fetching_is_quick_or_hidden(self) -> None:
        assert check(self.on_device(400)) == []
        assert check(self.on_device(1_500)) == [], "a worker could not hand it over much faster"

    def test_without_a_device_the_host_waits(self) -> None:
        steps = [step(number, 10_000.0 * number, 10_000) for number in range(4)]
        waits = [annotation(SINGLE, 10_000.0 * number, 3_000) for number in range(4)]
        (finding,) = check(self.bare(*steps, *waits))
        assert finding.share == pytest.approx(0.3)

    def test_fetches_outside_of_the_steps_do_not_count(self) -> None:
        inside = [step(number, 10_000.0 * number, 10_000) for number in range(4)]
        inside += [annotation(SINGLE, 10_000.0 * number, 3_000) for number in range(4)]
        (finding,) = check(
            self.bare(*inside, annotation(SINGLE, -900_000, 800_000), annotation(SINGLE, 40_000, 900_000))
        )
        assert "3.0 ms for each batch" in finding.summary
        assert "num_workers=1 in" in finding.advice
        outside = self.bare(step(1, 0, 10_000), op(0, 10), annotation(SINGLE, 20_000, 900_000))
        reason = DataloaderStarvation().skip_reason(outside)
        assert reason == "the steps of the trace have no event of a data loader"

    def test_skipped_where_no_loader_is_seen(self) -> None:
        assert DataloaderStarvation().skip_reason(self.bare(op(0, 10))) == "the trace has no event of a data loader"
