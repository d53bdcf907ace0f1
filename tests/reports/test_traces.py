"""Public reports on the trace as a file: where it may fail, who else reads it, and what Kineto prints."""

from __future__ import annotations

import shutil
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback

from tests.reports.harness import (
    fit,
    loader,
    perfwatch,
    profiler_steps,
    read_document,
    read_events,
    run_script,
    said_by_perfwatch,
    trace_files,
)

LOAD_MS_PER_BATCH = 20


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of three steps, each of which waits at least 20 ms for its batch."""
    directory = tmp_path_factory.mktemp("trace") / "perfwatch"
    fit(perfwatch(dir=directory), train=loader(load_s=LOAD_MS_PER_BATCH / 2 / 1e3))
    (path,) = trace_files(directory)
    return path


def test_a_trace_has_one_profiler_step_for_each_active_step(trace: Path) -> None:
    """K#774 (49): not one big step for the whole window."""
    assert [event["name"] for event in profiler_steps(read_events(trace))] == [
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
    ]


def test_the_events_of_a_thread_nest_and_never_overlap_in_part(trace: Path) -> None:
    """PL#8222, PL#16634, K#269 (20): a step ends outside of the optimizer's closure."""
    events = [event for event in read_events(trace) if event.get("cat") in ("cpu_op", "user_annotation")]
    assert any(event["name"].startswith("Optimizer.step") for event in events)
    for _, on_thread in groupby(sorted(events, key=lambda event: str(event["tid"])), key=lambda event: event["tid"]):
        open_until: list[float] = []
        for event in sorted(on_thread, key=lambda event: (event["ts"], -event["dur"])):
            start, end = event["ts"], event["ts"] + event["dur"]
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 0.001, f"{event['name']} outlives what it began in"
            open_until.append(end)


def test_the_steps_of_a_window_follow_one_another(trace: Path) -> None:
    """PL#16634 (20): each step ends before the next one begins, and holds its own wait for data."""
    steps = profiler_steps(read_events(trace))
    assert all(one["ts"] + one["dur"] <= next_one["ts"] for one, next_one in pairwise(steps))
    assert min(step["dur"] for step in steps) >= LOAD_MS_PER_BATCH * 1e3


def test_a_trace_of_one_process_says_so(trace: Path) -> None:
    """K#974, HTA#104, HTA#17, HTA#107 (43): HolisticTraceAnalysis refuses traces without a rank."""
    info = read_document(trace)["distributedInfo"]
    assert (info["rank"], info["world_size"]) == (0, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch-tb-profiler 0.4.3 and what it imports are old
def test_the_tensorboard_plugin_shows_the_wait_for_data(trace: Path, tmp_path: Path) -> None:
    """K#610, K#844, tensorboard#6136 (46): it drops the loader's events as current torch names them."""
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.event_parser import ProfileRole

    profile = RunProfileData.parse("rank0", 1, str(trace), str(tmp_path))

    assert profile.avg_costs.costs[ProfileRole.DataLoader] >= LOAD_MS_PER_BATCH * 1e3


@pytest.mark.parametrize("place", ["a_file/below", "/proc/nope", "s3://bucket/run"])
def test_a_directory_that_can_not_be_written_costs_one_warning(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """SkyRL PR#1750, K#177 (36): training ends as usual and the report holds what was measured."""
    Path("a_file").touch()
    watch = perfwatch(dir=place)
    trainer = fit(watch)

    assert trainer.global_step == 10
    (warning,) = said_by_perfwatch(caplog)
    assert place in warning
    assert watch.report is not None and watch.report.throughput.samples_per_s
    assert watch.report.phases and not watch.report.windows
    assert [path.name for path in Path().iterdir()] == ["a_file"]


class Remover(Callback):
    """Takes the run directory away in the middle of the window."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            shutil.rmtree("perfwatch")


def test_a_directory_that_vanishes_in_the_window_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """SkyRL PR#1750 (36): Kineto says nothing when it can't write, so the file is looked for."""
    watch = perfwatch()
    trainer = fit(watch, others=[Remover()])

    assert trainer.global_step == 10
    (warning,) = said_by_perfwatch(caplog)
    assert "tracing is off" in warning
    assert watch.report is not None and watch.report.throughput.samples_per_s
    assert not trace_files()


FRESH_RUN = """
from tests.reports.harness import fit, perfwatch
fit(perfwatch(quiet=False))
"""


def test_nothing_of_kineto_appears_on_stderr(tmp_path: Path) -> None:
    """K#859, PT#125272 (34): a run on a machine without a GPU prints the report and no complaint of the profiler."""
    run = run_script(FRESH_RUN, tmp_path)

    assert run.returncode == 0
    assert len(trace_files(tmp_path / "perfwatch")) == 1
    assert "slowest operations" in run.stdout
    for noise in ("USDT", "Kineto", "kineto", "gpuGetDeviceCount", "ERROR", "[W", "Traceback", "Exception"):
        assert noise not in run.stderr
