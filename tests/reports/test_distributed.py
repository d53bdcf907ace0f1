"""Public reports on several processes: two of gloo on the CPU, started by Lightning from a script."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.harness import read_document, run_script, steps_of, trace_files

DDP = """
import json
from datetime import timedelta
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader
from lightning_perfwatch import PerfWatch
from lightning_perfwatch.live.fit import FitWatch
from tests.reports.harness import SHORT, Module, Samples, fit

def count_numbers(batch):
    return batch.numel()

class Unequal(Module):
    def train_dataloader(self):
        rank = self.trainer.global_rank
        size = 2 + 4 * rank
        return DataLoader(Samples(16 * size), batch_size=size)

def run(ranks, logger, root):
    watch = PerfWatch(schedule=SHORT, tokens=count_numbers, ranks=ranks, quiet=True)
    strategy = DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=15))
    used = fit(
        watch, Unequal(forward_s=0.02), train=False, accelerator="cpu", devices=2, strategy=strategy, logger=logger,
        log_every_n_steps=1, use_distributed_sampler=False, default_root_dir=root,
    )
    report = watch.report
    return used.global_rank, {
        "world_size": report.run.world_size,
        "ranks": [[rank.rank, rank.samples_per_s, rank.tokens_per_s] for rank in report.ranks],
        "samples_per_s": report.throughput.samples_per_s,
        "tokens_per_s": report.throughput.tokens_per_s,
        "own_samples_per_s": report.throughput.samples_per_s_rank,
        "amounts": [[rank.samples, rank.tokens] for rank in report.ranks],
        "intervals": report.throughput.intervals.get("samples_per_s") and [
            getattr(report.throughput.intervals["samples_per_s"], end) for end in ("low", "median", "high")
        ],
        "rank_intervals": [
            [getattr(rank.intervals["samples_per_s"], end) for end in ("low", "median", "high")]
            for rank in report.ranks if rank.intervals
        ],
        "windows": [[window.rank, window.first_step, window.num_steps] for window in report.windows],
        "directory": report.directory,
    }

if __name__ == "__main__":
    outcomes = {}
    rank, outcomes["none"] = run("rank0", False, "none")
    _, outcomes["csv"] = run("all", CSVLogger("csv"), "unused")
    _, outcomes["both"] = run([1], [CSVLogger("both_csv"), TensorBoardLogger("both_board")], "unused")
    if rank == 1:
        FitWatch.step_ended = None  # from now on PerfWatch fails on this rank, in its first step
    _, outcomes["broken"] = run("rank0", False, "broken")
    if rank == 0:
        print("OUTCOMES" + json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp")


@pytest.fixture(scope="module")
def outcomes(directory: Path) -> dict[str, Any]:
    run = run_script(DDP, directory)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("PerfWatch failed") <= 1, "on purpose, in the last fit"
    found: dict[str, Any] = json.loads(run.stdout.partition("OUTCOMES")[2])
    return found


@pytest.mark.parametrize("logger", ["none", "csv", "both"])
def test_throughput_counts_every_process(outcomes: dict[str, Any], logger: str) -> None:
    """PL#18148, PL#19106, PL#19604 (87), mosaicml/examples PR#71, composer PR#2013 (71): no hang, and an exact sum."""
    outcome = outcomes[logger]
    assert outcome["world_size"] == 2
    (_, samples_0, tokens_0), (_, samples_1, tokens_1) = outcome["ranks"]
    assert [rank for rank, _, _ in outcome["ranks"]] == [0, 1]
    assert samples_1 / samples_0 == pytest.approx(3, rel=0.4), "the second process has three times the batch size"
    assert outcome["samples_per_s"] == pytest.approx(samples_0 + samples_1)
    assert outcome["tokens_per_s"] == pytest.approx(tokens_0 + tokens_1)
    assert outcome["own_samples_per_s"] == pytest.approx(samples_0)
    assert outcome["samples_per_s"] <= (2 + 6) / 0.02
    assert outcome["amounts"] == [[16 * 2, 16 * 2 * 8], [16 * 6, 16 * 6 * 8]]
    assert len(outcome["rank_intervals"]) == 2
    sums = [sum(ends) for ends in zip(*outcome["rank_intervals"], strict=True)]
    assert outcome["intervals"] == pytest.approx(sums) == sorted(sums)


def test_a_live_rate_is_one_processs_own_and_named_so(outcomes: dict[str, Any], directory: Path) -> None:
    """mosaicml/examples PR#71, composer PR#2013 (71): one device's rate never passes for the whole run's."""
    with (directory / "csv/lightning_logs/version_0/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))

    rates = [float(row["perfwatch/samples_per_s_rank"]) for row in rows if row.get("perfwatch/samples_per_s_rank")]
    assert len(rates) == 16
    assert max(rates) <= 2 / 0.02, "two samples take the first process at least 20 ms"
    assert not any("perfwatch/samples_per_s" in row or "perfwatch/tokens_per_s" in row for row in rows)


@pytest.mark.parametrize(
    ("logger", "place", "ranks"),
    [
        ("none", "none/perfwatch", [0]),
        ("csv", "csv/lightning_logs/version_0/perfwatch", [0, 1]),
        ("both", "both_board/lightning_logs/version_0/perfwatch", [1]),
    ],
)
def test_the_chosen_processes_record_into_one_directory(
    outcomes: dict[str, Any], directory: Path, logger: str, place: str, ranks: list[int]
) -> None:
    """PL#18148, K#974 (87, 43): all ranks agree on the directory; rank 0 alone records unless told otherwise."""
    assert Path(outcomes[logger]["directory"]) == directory / place
    traces = trace_files(directory / place)
    assert [path.name.partition(".")[0] for path in traces] == [f"rank{rank}" for rank in ranks]
    assert [list(steps_of(path)) for path in traces] == [[2, 3, 4]] * len(ranks)
    assert outcomes[logger]["windows"] == [[rank, 2, 3] for rank in ranks]
    infos = [read_document(path)["distributedInfo"] for path in traces]
    assert [(info["rank"], info["world_size"]) for info in infos] == [(rank, 2) for rank in ranks]


def test_a_failure_of_its_own_on_one_process_does_not_hang_the_others(outcomes: dict[str, Any]) -> None:
    """PL#18148 (87): a process whose PerfWatch is off takes part in every collective call all the same."""
    outcome = outcomes["broken"]
    assert outcome["windows"] == [[0, 2, 3]]
    assert outcome["own_samples_per_s"] > 0
    assert outcome["samples_per_s"] is None, "the rate of all processes can't be told without the second one's"


SPAWN = """
from tests.reports.harness import fit, loader, perfwatch

if __name__ == "__main__":
    fit(perfwatch(), train=loader(20), devices=2, strategy="ddp_spawn")
    print("DONE")
"""


def test_the_callback_travels_to_spawned_processes(tmp_path: Path) -> None:
    """PL#1774, PL#15722 (11): a spawn launcher pickles it."""
    run = run_script(SPAWN, tmp_path)

    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("DONE\n")
    assert [list(steps_of(path)) for path in trace_files(tmp_path / "perfwatch")] == [[2, 3, 4]]


STRAGGLING = """
import json
from lightning.pytorch.strategies import DDPStrategy
from lightning_perfwatch import PerfWatch
from tests.reports.harness import SHORT, Module, fit, loader

class LateData(Module):
    def train_dataloader(self):
        return loader(num_batches=20, load_s=0.03 * self.trainer.global_rank)

if __name__ == "__main__":
    watch = PerfWatch(schedule=SHORT, quiet=True)
    strategy = DDPStrategy(process_group_backend="gloo")
    used = fit(
        watch, LateData(), train=False, accelerator="cpu", devices=2, strategy=strategy, logger=False,
        use_distributed_sampler=False, default_root_dir="straggling",
    )
    if used.global_rank == 0:
        late = [one for one in watch.report.findings if one.rule == "straggler-rank"]
        print("OUTCOMES" + json.dumps([[one.where.rank, one.evidence["part"], one.severity.value] for one in late]))
"""


def test_the_rank_whose_data_is_late_is_named(tmp_path: Path) -> None:
    """Traceml PR#149 (62): on the other rank the same time looks like a long backward pass."""
    run = run_script(STRAGGLING, tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.partition("OUTCOMES")[2]) == [[1, "data_wait", "critical"]]
