"""Windows that the schedule does not have, in real fits: on request, on a signal, on drift, and none without need."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback

from lightning_perfwatch import PerfWatch, Report, Schedule, Triggers
from lightning_perfwatch.cli import main
from lightning_perfwatch.live import on_demand
from lightning_perfwatch.live.on_demand import OnDemand
from lightning_perfwatch.live.windows import Windows
from lightning_perfwatch.reporters import render
from lightning_perfwatch.reporters.outline import outline
from lightning_perfwatch.window_requests import Listening, WindowRequests
from tests.live.factories import HostClock
from tests.live.test_windows import Loop
from tests.reports.harness import NEVER, SHORT, Module, fit, loader, read_events, run_script, steps_of, trace_files

EARLY = Schedule(skip_first=0, wait=1, warmup=1, active=2)
"""Steps 2 and 3 are recorded."""

BY_COMMAND = "requested with perfwatch trigger"


class At(Callback):
    """Does something after some steps."""

    def __init__(self, *steps: int, act: Callable[[], Any]) -> None:
        self.steps = steps
        self.act = act
        self.results: list[Any] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx in self.steps:
            self.results.append(self.act())


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy's steps are over long before a second is."""
    monkeypatch.setattr(on_demand, "LOOK_EVERY_NS", 0)


def ask(directory: str = "perfwatch") -> int:
    return main(["trigger", directory])


def watched(callback: At | None = None, num_steps: int = 30, schedule: Schedule = EARLY, **settings: Any) -> Report:
    watch = PerfWatch(schedule=schedule, quiet=True, triggers=settings.pop("triggers", None))
    others = [] if callback is None else [callback]
    fit(watch, settings.pop("module", None), settings.pop("train", loader(num_steps)), others=others, **settings)
    assert watch.report is not None
    return watch.report


def opened(report: Report) -> list[tuple[int, int, str]]:
    return [(window.first_step, window.num_steps, window.opened_by) for window in report.windows]


@pytest.mark.usefixtures("looks_often")
def test_a_request_during_the_fit_gets_a_window_whose_trace_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    at = At(10, act=ask)
    report = watched(at)

    assert at.results == [0]
    assert "for a window; it looks once a second." in capsys.readouterr().out
    # the callback's hook comes after PerfWatch's: it is seen after step 11, step 13 is warmup
    assert opened(report) == [(2, 2, "schedule"), (14, 2, BY_COMMAND)]
    assert [sorted(steps_of(path)) for path in trace_files()] == [[2, 3], [14, 15]]
    assert not any("window" in note for note in report.notes)
    assert "2 steps from step 14 on (requested with perfwatch trigger)" in render(report, "text")
    assert not {"window.request", "listening.json"} & {path.name for path in Path("perfwatch").iterdir()}


@pytest.mark.usefixtures("looks_often")
def test_what_the_training_says_is_written_anew_only_where_it_has_changed() -> None:
    """A scheduled window answers nobody; a request is answered when its window is planned and when it has closed."""

    def written() -> int:
        return Path("perfwatch/listening.json").stat().st_mtime_ns

    plain = At(*range(29), act=written)
    watched(plain)
    assert len(set(plain.results)) == 1

    asked = At(*range(29), act=lambda: (len(asked.results) == 10 and ask(), written())[1])
    assert len(watched(asked).windows) == 2
    assert len(set(asked.results)) == 3


@pytest.mark.usefixtures("looks_often")
def test_two_requests_at_once_get_one_window_and_two_in_turn_get_two() -> None:
    assert opened(watched(At(10, 10, 11, act=ask))) == [(2, 2, "schedule"), (14, 2, BY_COMMAND)]
    assert opened(watched(At(10, 20, act=ask)))[1:] == [(14, 2, BY_COMMAND), (24, 2, BY_COMMAND)]


@pytest.mark.usefixtures("looks_often")
def test_a_request_in_a_scheduled_window_waits_for_its_end() -> None:
    at = At(0, act=ask)
    assert opened(watched(at)) == [(2, 2, "schedule"), (5, 2, BY_COMMAND)]


@pytest.mark.usefixtures("looks_often")
def test_a_request_is_answered_in_the_first_steps_as_soon_as_they_are_over() -> None:
    schedule = Schedule(skip_first=8, wait=10, warmup=1, active=2)
    assert opened(watched(At(0, act=ask), schedule=schedule)) == [(9, 2, BY_COMMAND), (19, 2, "schedule")]


def test_what_an_earlier_run_left_opens_no_window() -> None:
    Path("perfwatch").mkdir()
    WindowRequests(Path("perfwatch")).ask()
    WindowRequests(Path("perfwatch")).say(Listening(1, "elsewhere", "never"))

    assert opened(watched()) == [(2, 2, "schedule")]
    assert ask() == 2


def test_after_the_fit_the_command_says_that_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    watched()

    assert ask() == 2
    assert "a training here is over" in capsys.readouterr().err


def test_a_run_that_takes_no_requests_says_so_by_its_silence(capsys: pytest.CaptureFixture[str]) -> None:
    at = At(10, act=ask)

    assert opened(watched(at, triggers=Triggers(on_request=False))) == [(2, 2, "schedule")]
    assert at.results == [2]
    assert "takes no requests" in capsys.readouterr().err


@pytest.mark.usefixtures("looks_often")
def test_a_run_that_records_nothing_refuses_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    at = At(20, act=ask)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        report = watched(at, schedule=SHORT)

    assert (at.results, opened(report)) == ([2], [])
    assert "can record no window: tracing is off: a torch.profiler" in capsys.readouterr().err


@pytest.mark.usefixtures("looks_often")
def test_a_request_that_the_end_overtakes_leaves_nothing_behind() -> None:
    report = watched(At(29, act=ask))

    assert opened(report) == [(2, 2, "schedule")]
    assert not (Path("perfwatch") / "window.request").exists()


@pytest.mark.usefixtures("looks_often")
def test_a_window_on_request_that_the_end_cuts_short_keeps_its_reason() -> None:
    (window,) = watched(At(25, act=ask), schedule=Schedule(skip_first=0, wait=1000, warmup=1, active=9)).windows

    assert (window.partial, window.num_steps, window.opened_by) == (True, 1, BY_COMMAND)


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("accumulated", [1, 3])
def test_a_window_on_request_over_validation_and_accumulation(accumulated: int) -> None:
    report = watched(
        At(10, act=ask),
        schedule=Schedule(skip_first=0, wait=1000, warmup=3, active=6),
        val_check_interval=5,
        limit_val_batches=2,
        accumulate_grad_batches=accumulated,
        train=loader(30),
        val=loader(4),
    )

    assert opened(report) == [(16, 6, BY_COMMAND)]
    events = read_events(trace_files()[0])
    steps = sum(str(event["name"]).startswith("Optimizer.step") for event in events)
    assert steps == 6 // accumulated


@pytest.mark.usefixtures("looks_often")
def test_losses_and_parameters_are_bitwise_the_same_with_a_window_on_request() -> None:
    def outcome(*callbacks: Any) -> list[Any]:
        torch.manual_seed(3)
        module = Dropped()
        fit(At(10, act=lambda: None), module, loader(30), others=callbacks)
        return [*module.losses, *(parameter.tolist() for parameter in module.parameters())]

    watch = PerfWatch(schedule=EARLY, quiet=True, triggers=Triggers(signal="SIGUSR2"))
    assert outcome(watch, At(10, act=ask)) == outcome()
    assert watch.report is not None
    assert len(watch.report.windows) == 2


class Dropped(Module):
    """Remembers its losses, which depend on the state of the random generator."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.layer(torch.nn.functional.dropout(batch, 0.3)).square().mean()
        self.losses.append(loss.item())
        return loss


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    """A handler of the user's own, and what it got."""
    came: list[int] = []
    former = signal.signal(signal.SIGUSR2, lambda number, frame: came.append(number))
    handler = signal.getsignal(signal.SIGUSR2)
    yield came
    assert signal.getsignal(signal.SIGUSR2) is handler
    signal.signal(signal.SIGUSR2, former)


def test_a_signal_opens_a_window_and_its_former_handler_is_called_too(own_handler: list[int]) -> None:
    at = At(10, act=lambda: os.kill(os.getpid(), signal.SIGUSR2))
    report = watched(at, triggers=Triggers(signal="SIGUSR2", on_request=False))

    assert opened(report) == [(2, 2, "schedule"), (14, 2, "requested with SIGUSR2")]
    assert own_handler == [signal.SIGUSR2]


def test_without_the_setting_a_signal_is_the_users_alone(own_handler: list[int]) -> None:
    report = watched(At(10, act=lambda: os.kill(os.getpid(), signal.SIGUSR2)))

    assert opened(report) == [(2, 2, "schedule")]
    assert own_handler == [signal.SIGUSR2]


def test_a_fit_that_breaks_off_gives_the_signal_back(own_handler: list[int]) -> None:
    def fail() -> None:
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        watched(At(10, act=fail), triggers=Triggers(signal="SIGUSR2"))
    assert not (Path("perfwatch") / "listening.json").exists()


class Slowing(Module):
    """Its step takes so long on a clock that only moves here, and from step 150 on longer."""

    def __init__(self, clock: HostClock, then_ms: float) -> None:
        super().__init__()
        self.clock = clock
        self.then_ms = then_ms

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.clock.pass_ms(10.0 if batch_idx < 150 else self.then_ms)
        return super().training_step(batch, batch_idx)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HostClock:
    """What steps are timed by."""
    clock = HostClock()
    monkeypatch.setattr("lightning_perfwatch.live.stopwatch.perf_counter_ns", clock)
    monkeypatch.setattr("lightning_perfwatch.live.contexts.perf_counter_ns", clock)
    return clock


def drifting(clock: HostClock, then_ms: float, **triggers: Any) -> Report:
    module = Slowing(clock, then_ms)
    settings = Triggers(**{"drift_factor": 1.5, "drift_s": 0.6, **triggers})
    schedule = Schedule(skip_first=0, wait=10_000, warmup=1, active=2)
    return watched(None, 230, schedule, triggers=settings, module=module, log_every_n_steps=10)


def test_a_step_that_takes_longer_from_some_step_on_opens_a_window_by_itself(clock: HostClock) -> None:
    why = "drift: the step takes 1.8 times its steady state (18 ms against 10 ms)"
    report = drifting(clock, 18.0)

    # two intervals of ten slow steps make a span of 0.2 s: the third one ends with step 209, step 211 is warmup
    assert opened(report) == [(212, 2, why)]
    assert any(why in fact.value for fact in outline(report).speed)


@pytest.mark.parametrize("then_ms", [10.0, 14.0])
def test_a_step_that_stays_about_as_it_is_opens_none(clock: HostClock, then_ms: float) -> None:
    assert opened(drifting(clock, then_ms)) == []


@pytest.mark.parametrize("triggers", [{"drift_factor": None}, {"max_drifts": 0}])
def test_drift_that_is_not_asked_about_opens_none(clock: HostClock, triggers: dict[str, Any]) -> None:
    assert opened(drifting(clock, 40.0, **triggers)) == []


def on_demand_of(directory: Path, *, num_ranks: int, answers: bool) -> tuple[OnDemand, list[int]]:
    """One rank of a fit of its own, and the first recorded steps of the windows that it plans."""
    windows: Windows = Loop(directory, NEVER).windows
    planned: list[int] = []
    followers = [lambda plan: planned.append(plan.on_demand.start)]
    return OnDemand(Triggers(), directory, windows, followers, num_ranks, answers=answers), planned


def test_several_ranks_see_a_request_at_the_same_step_and_plan_the_same_window(tmp_path: Path) -> None:
    ranks = [on_demand_of(tmp_path, num_ranks=3, answers=rank == 0) for rank in range(3)]
    for step in range(60):
        if step == 13:
            assert ask(str(tmp_path)) == 0
        for rank, _ in ranks:
            rank.look(step, step)

    assert [planned for _, planned in ranks] == [[24], [24], [24]]
    assert not (tmp_path / "window.request").exists()


DDP = """
from datetime import timedelta
import torch
from lightning.pytorch.strategies import DDPStrategy
from lightning_perfwatch import PerfWatch
from tests.reports.harness import NEVER, fit, loader
from tests.reports.test_on_demand import At, ask

def first_rank_asks():
    if torch.distributed.get_rank() == 0:
        ask()

watch = PerfWatch(schedule=NEVER, ranks="all", quiet=True)
strategy = DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=30))
used = fit(
    watch, None, loader(64), others=[At(12, act=first_rank_asks)], accelerator="cpu", devices=2,
    strategy=strategy,
)
if used.global_rank == 0:
    windows = watch.report.windows
    print("WINDOWS", [(one.rank, one.first_step, one.num_steps, one.opened_by) for one in windows])
"""


def test_two_processes_record_the_same_steps_on_one_request(tmp_path: Path) -> None:
    run = run_script(DDP, tmp_path)

    assert run.returncode == 0, run.stderr
    assert f"WINDOWS {[(0, 24, 5, BY_COMMAND), (1, 24, 5, BY_COMMAND)]}" in run.stdout
    assert not (tmp_path / "perfwatch/window.request").exists()


def test_a_process_that_records_nothing_does_not_look(tmp_path: Path) -> None:
    idle = OnDemand(Triggers(signal="SIGUSR2"), None, Loop(None, NEVER).windows, [])
    former = signal.getsignal(signal.SIGUSR2)

    assert idle.due_ns == sys.maxsize
    assert former in (signal.SIG_DFL, signal.getsignal(signal.SIGUSR2))
    idle.end()
