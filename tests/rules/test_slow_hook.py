from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.slow_hook import SlowHook
from tests.rules.factories import evidence, hook_time, on_gpu, run_info, step_times
from tests.trace.factories import Json, annotation, call, kernel, op, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(SlowHook().check(found))


def test_silent_when_hooks_are_quick() -> None:
    assert check(evidence(hooks=(hook_time(s_per_step=0.0049),))) == []


def test_silent_about_microseconds_in_a_tiny_step() -> None:
    tiny = step_times(data_wait=0.1, forward=0.1, backward=0.1, optimizer=0.1, callbacks=0.1, other=0.1)
    assert check(evidence(steps=tiny, hooks=(hook_time(s_per_step=4e-4),))) == []


def test_skipped_without_hooks_or_with_too_few_steps() -> None:
    assert SlowHook().skip_reason(evidence(hooks=None))
    assert "4 steady steps" in str(SlowHook().skip_reason(evidence(steps=step_times(4))))


def test_names_the_hook_and_its_place() -> None:
    (finding,) = check(evidence(hooks=(hook_time(s_per_step=0.02, max_s=0.021, file="/home/me/meter.py", line=4),)))
    assert finding.severity is Severity.WARNING
    assert finding.share == pytest.approx(0.2)
    assert finding.summary.startswith("Meter.on_train_batch_end takes 20.0 ms of each 100.0 ms step (20 %).")
    assert str(finding.where) == "/home/me/meter.py:4 · Meter.on_train_batch_end"


def test_a_rare_stall_counts_by_its_mean() -> None:
    (finding,) = check(evidence(hooks=(hook_time(s_per_step=0.03, max_s=1.5),)))
    assert finding.severity is Severity.CRITICAL
    assert "up to 1500 ms at a time" in finding.summary


@pytest.mark.parametrize(
    ("name", "hook", "advice"),
    [
        ("RichProgressBar", "on_train_batch_end", "RichProgressBar(refresh_rate=50)"),
        ("Lightning's logging", "after the batch", "log_every_n_steps=50"),
        ("Meter", "on_train_batch_end", "every 50 steps"),
    ],
)
def test_the_advice_fits_the_hook(name: str, hook: str, advice: str) -> None:
    assert advice in check(evidence(hooks=(hook_time(name=name, hook=hook, s_per_step=0.02),)))[0].advice


def test_between_batches_ranks_wait_for_each_other_and_that_is_no_logging() -> None:
    logging = hook_time(name="Lightning's logging", hook="after the batch", s_per_step=0.02)
    assert check(evidence(hooks=(logging,), run=run_info(world_size=2))) == []


def test_a_rare_stall_is_not_advised_to_be_rare() -> None:
    (finding,) = check(evidence(hooks=(hook_time(s_per_step=0.03, max_s=1.5),)))
    assert "batch_idx" not in finding.advice


def test_on_a_gpu_it_cannot_judge_without_a_trace() -> None:
    assert "no trace tells" in str(SlowHook().skip_reason(evidence(run=on_gpu())))


class TestInABareTrace:
    def stalling(self, stall_us: float, *more: Json) -> Evidence:
        """Steps of 10 ms in which the host does nothing that is seen before it launches the rest."""
        events: list[Json] = []
        for number in range(3):
            begin = 10_000.0 * number
            work_us = 10_000 - stall_us
            events += [step(number, begin, 10_000), call(begin + stall_us, 10, correlation=number + 1)]
            events += [
                op(begin + stall_us, work_us),
                kernel(begin + stall_us + 10, work_us - 10, correlation=number + 1),
            ]
        return Evidence(trace=trace(*events, *more), missing=TRACE_ALONE)

    def test_a_host_that_is_busy_elsewhere_is_found_with_the_label_around_it(self) -> None:
        labels = [annotation("my callback", 10_000.0 * number, 4_500) for number in range(3)]
        (finding,) = check(self.stalling(4_000, *labels))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.4, abs=0.02)
        assert "up to 4 ms at a time, inside 'my callback'." in finding.summary
        assert finding.where.op == "my callback"

    def test_the_time_that_the_device_is_busy_meanwhile_is_not_its_idle_time(self) -> None:
        """The host is away for 9 ms of each step, the device has work for the first 6."""
        events: list[Json] = []
        for number in range(3):
            begin = 10_000.0 * number
            events += [step(number, begin, 10_000), op(begin, 980), call(begin, 10, correlation=number + 1)]
            events.append(kernel(begin + 10, 6_990, correlation=number + 1))
        (finding,) = check(Evidence(trace=trace(*events), missing=TRACE_ALONE))
        assert finding.share == pytest.approx(0.2, abs=0.01)
        assert "up to 3 ms at a time" in finding.summary

    def test_one_step_of_many_is_information(self) -> None:
        events: list[Json] = []
        for number in range(5):
            begin, away = 10_000.0 * number, 5_000 if number == 2 else 0
            events += [step(number, begin, 10_000), call(begin + away, 10, correlation=number + 1)]
            events += [op(begin + away, 9_990 - away), kernel(begin + away + 10, 9_980 - away, correlation=number + 1)]
        (finding,) = check(Evidence(trace=trace(*events), missing=TRACE_ALONE))
        assert finding.severity is Severity.INFO
        assert finding.summary.endswith("nearly all of it in 1 of 5 steps (#2).")

    def test_silent_when_it_is_never_away_for_a_millisecond(self) -> None:
        assert check(self.stalling(900)) == []

    def test_skipped_without_a_device(self) -> None:
        host_only = Evidence(trace=trace(step(1, 0, 100), op(0, 50)), missing=TRACE_ALONE)
        assert "without a device" in str(SlowHook().skip_reason(host_only))
