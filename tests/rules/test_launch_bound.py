from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.launch_bound import LaunchBound
from lightning_perfwatch.sync_sites import CallSite, SyncSites
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, on_gpu, step_times
from tests.trace.factories import Json, annotation, call, frame, kernel, op, optimizer_step, step, trace


def check(found: Evidence) -> list[Finding]:
    return list(LaunchBound().check(found))


def bare(recorded: Trace) -> Evidence:
    return Evidence(trace=recorded, missing=TRACE_ALONE)


def launching(busy_us: float, *more: Json, per_step: int = 20) -> Trace:
    """Three steps of 2000 µs: every 100 µs a kernel of ``busy_us``, launched when the one before is long over."""
    events: list[Json] = []
    for number in range(3):
        begin = 2000.0 * number
        events.append(step(number, begin, 2000))
        for at in range(per_step):
            here, correlation = begin + 100 * at, 1 + per_step * number + at
            events += [op(here, 95), call(here, 100 - busy_us, correlation=correlation)]
            events.append(kernel(here + 100 - busy_us, busy_us, correlation=correlation))
    return trace(*events, *more)


class TestOnADevice:
    def test_without_steps_kernels_are_counted_in_the_trace(self) -> None:
        events: list[Json] = []
        for at in range(60):
            events += [op(100 * at, 95), call(100 * at, 90, correlation=at + 1), kernel(100 * at + 90, 10, "k", at + 1)]
        (finding,) = check(bare(trace(*events)))
        assert "60 kernels in the trace of 10 µs in the median" in finding.summary
        assert "per step" not in finding.summary
        assert finding.evidence["kernels_per_step"] is None

    def test_one_step_of_many_is_information(self) -> None:
        events: list[Json] = []
        for number in range(5):
            busy_us = 10 if number == 3 else 99
            for at in range(20):
                here, correlation = 2000.0 * number + 100 * at, 1 + 20 * number + at
                events += [op(here, 95), call(here, 100 - busy_us, correlation=correlation)]
                events.append(kernel(here + 100 - busy_us, busy_us, correlation=correlation))
            events.append(step(number, 2000.0 * number, 2000))
        (finding,) = check(bare(trace(*events)))
        assert finding.severity is Severity.INFO
        assert finding.summary.endswith("nearly all of it in 1 of 5 steps (#3).")

    def test_silent_when_the_device_is_busy(self) -> None:
        assert check(bare(launching(96))) == []

    def test_idle_time_before_late_launches_is_its_cost(self) -> None:
        (finding,) = check(bare(launching(10)))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.9, abs=0.02)
        assert finding.share_is == "upper bound"
        assert (
            "idles for 90 % of the time because the host launches its 20 kernels per step of 10 µs" in finding.summary
        )
        assert "100 % of them by aten::mm" in finding.summary
        assert finding.where.op == "aten::mm"
        assert "torch.compile(model, mode='reduce-overhead')" in finding.advice

    @pytest.mark.parametrize(("busy_us", "fires"), [(95.5, False), (94, True)])
    def test_fires_from_five_percent_on(self, busy_us: float, fires: bool) -> None:
        assert bool(check(bare(launching(busy_us)))) is fires

    def test_silent_where_too_few_kernels_were_recorded(self) -> None:
        assert check(bare(launching(10, per_step=16))) == []  # 48

    def test_silent_where_the_loader_explains_most_of_the_idle_time(self) -> None:
        fetches = [
            annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2000.0 * number, 1400)
            for number in range(3)
        ]
        assert check(bare(launching(10, *fetches))) == []

    def test_the_module_and_the_line_that_launch_most(self) -> None:
        stacks = [frame("net.py(7): forward", 0, 6000), frame("nn.Module: Block_3", 1, 5990)]
        (finding,) = check(bare(launching(10, *stacks)))
        assert str(finding.where) == "net.py:7 · Block"

    def test_a_loop_over_parameters_in_the_optimizer_comes_first(self) -> None:
        (finding,) = check(bare(launching(10, *(optimizer_step(2000.0 * number, 800) for number in range(3)))))
        assert finding.advice.startswith("Pass fused=True to the optimizer")

    def test_what_the_profiler_adds_is_taken_off(self) -> None:
        recorded = launching(10)
        steps_ms = 2.0 - 40 * 2e-3  # as much faster without it as 40 events of 2 µs take
        quick = step_times(data_wait=0, transfer=0, forward=steps_ms, backward=0, optimizer=0, callbacks=0, other=0)
        (alone,), (live,) = check(bare(recorded)), check(evidence(trace=recorded, run=on_gpu(), steps=quick))
        assert alone.share is not None and live.share is not None
        assert live.share == pytest.approx((alone.share * 2.0 - 0.08) / 1.92)

    def test_a_trace_of_the_device_alone_does_not_tell(self) -> None:
        assert "no calls of the host" in str(LaunchBound().skip_reason(bare(trace(step(1, 0, 100), kernel(10, 20)))))


class TestOnACpu:
    def looping(self, count: int, *more: Json) -> Trace:
        """Steps of 10 ms; each round of two operators takes 20 µs."""
        events: list[Json] = []
        for number in range(3):
            begin = 10_000.0 * number
            events += [step(number, begin, 10_000), op(begin + 9_000, 990, "aten::addmm")]
            for turn in range(count):
                events += [op(begin + 20 * turn, 6, "aten::select"), op(begin + 20 * turn + 10, 6, "aten::mul")]
        return trace(*events, *more)

    def live(self, recorded: Trace, **changes: object) -> Evidence:
        return evidence(trace=recorded, steps=step_times(5), **changes)

    def test_silent_without_a_loop(self) -> None:
        assert check(bare(self.looping(31))) == []

    def test_a_long_loop_is_found_with_what_it_calls(self) -> None:
        (finding,) = check(bare(self.looping(400)))
        assert finding.severity is Severity.CRITICAL
        assert finding.share == pytest.approx(0.8, abs=0.01)
        assert finding.share_is == "estimate"
        assert "800 operators in each step, 6 µs in the median, 400 times the same aten::select → aten::mul:" in (
            finding.summary
        )
        assert finding.where.op == "aten::select"

    @pytest.mark.parametrize(("count", "fires"), [(32, True), (100, True), (20, False)])
    def test_fires_from_five_percent_and_enough_rounds_on(self, count: int, fires: bool) -> None:
        assert bool(check(bare(self.looping(count)))) is fires

    def test_the_line_that_made_most_calls_in_the_audited_steps_is_the_place(self) -> None:
        busiest = (CallSite("/home/me/net.py", 31, "forward", 800.0), CallSite("/home/me/net.py", 9, "loss", 2.0))
        (finding,) = check(self.live(self.looping(400), syncs=SyncSites(2, busiest=busiest)))
        assert str(finding.where) == "/home/me/net.py:31 · forward()"

    def test_a_line_with_few_calls_is_not_the_loop(self) -> None:
        busiest = (CallSite("/home/me/net.py", 9, "loss", 2.0),)
        (finding,) = check(self.live(self.looping(400), syncs=SyncSites(2, busiest=busiest)))
        assert finding.where.file is None

    def test_a_gpu_whose_trace_shows_no_device_is_not_judged_as_a_cpu(self) -> None:
        assert check(self.live(self.looping(400), run=on_gpu())) == []
