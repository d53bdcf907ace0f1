"""Public reports on the torch-tb-profiler tab: what it makes of the run directories that PerfWatch leaves.

It is loaded by that package itself, in a process of its own, as TensorBoard does it.
"""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.reports.harness import run_script, trace_files

NUM_STEPS = 5
LOAD_MS_PER_BATCH = 20.0

TWO_RANKS = f"""
from datetime import timedelta
from lightning.pytorch.strategies import DDPStrategy
from lightning_perfwatch import Schedule
from tests.reports.harness import Module, fit, loader, perfwatch

if __name__ == "__main__":
    schedule = Schedule(skip_first=0, wait=1, warmup=1, active={NUM_STEPS}, repeat=2)
    strategy = DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=60))
    fit(
        perfwatch(schedule=schedule, ranks="all", dir="runs/two.ranks_1/perfwatch"),
        train=loader(30, load_s={LOAD_MS_PER_BATCH / 2e3}), accelerator="cpu", devices=2, strategy=strategy,
    )
"""

TAB = """
import json, tempfile, time
from tensorboard.plugins.base_plugin import TBContext
from torch_tb_profiler import consts
from torch_tb_profiler.plugin import TorchProfilerPlugin

consts.MONITOR_RUN_REFRESH_INTERNAL_IN_SECONDS = 0.2

def told(run):
    return {
        worker: {span: run.get_profile(worker, span).overview for span in run.get_spans(worker)}
        for worker in run.get_workers("Overview")
    }

if __name__ == "__main__":
    plugin = TorchProfilerPlugin(TBContext(logdir="runs"))
    end_s = time.monotonic() + {longest_s}
    while len(plugin._runs) < {num_runs} and time.monotonic() < end_s:
        time.sleep(0.1)
    print("TOLD" + json.dumps({name: told(run) for name, run in plugin._runs.items()}))
"""


def tab(directory: Path, num_runs: int = 1, longest_s: float = 90.0) -> Any:
    """What the tab shows of ``directory/runs``: its overview by run, worker and span."""
    shown = run_script(TAB.replace("{longest_s}", str(longest_s)).replace("{num_runs}", str(num_runs)), directory)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout.partition("TOLD")[2])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tab")
    run = run_script(TWO_RANKS, directory)
    assert run.returncode == 0, run.stderr
    return directory


@pytest.fixture(scope="module")
def shown(directory: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TORCH_PROFILER_START_METHOD", "fork")  # imports once, not once a trace
        return tab(directory)


def test_every_window_of_every_rank_can_be_chosen(directory: Path, shown: Any) -> None:
    """PT#91887, K#179 (41), K#347, K#605 (47): two windows are two spans of one worker, and ranks are workers."""
    assert len(trace_files(directory / "runs/two.ranks_1/perfwatch")) == 4
    (run,) = shown.values()
    assert {worker: list(spans) for worker, spans in run.items()} == {"rank0": ["1", "2"], "rank1": ["1", "2"]}


def test_the_overview_has_a_row_for_each_step_with_its_number(shown: Any) -> None:
    """K#774 (49): not one big step 0 for the whole window."""
    (run,) = shown.values()
    for spans in run.values():
        steps = [[row[0] for row in overview["steps"]["rows"]] for overview in spans.values()]
        assert steps == [["2", "3", "4", "5", "6"], ["9", "10", "11", "12", "13"]]


def test_the_overview_shows_how_long_training_waits_for_data(shown: Any) -> None:
    """K#610, K#844, tensorboard#6136 (46): on every rank and in every window."""
    (run,) = shown.values()
    for spans in run.values():
        for overview in spans.values():
            (total,) = overview["performance"]
            parts = {part["name"]: part["value"] / 1e3 for part in total["children"]}
            assert LOAD_MS_PER_BATCH <= parts["DataLoader"] <= total["value"] / 1e3


def test_a_folder_without_a_trace_gives_no_run(tmp_path: Path) -> None:
    """K#270, K#334 (48): the tab waits for ever; the README says so."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "report.json").write_text("{}")

    assert tab(tmp_path, longest_s=1.0) == {}
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "stays empty without a trace" in " ".join(readme.split())


def test_nothing_needs_the_profiler_tab(tmp_path: Path) -> None:
    """K#857, K#1065, K#1009 (50): it is no longer developed; a training is watched and reported without it."""
    script = """
        import sys
        sys.modules["torch_tb_profiler"] = None  # whoever imports it now gets an ImportError
        from tests.reports.harness import fit, loader, perfwatch
        watch = perfwatch()
        fit(watch, train=loader(8), accelerator="cpu")
        assert watch.report.windows[0].trace is not None
    """
    done = run_script(textwrap.dedent(script), tmp_path)
    assert done.returncode == 0, done.stderr
    assert trace_files(tmp_path / "perfwatch")
