"""Each worked example runs, with few steps of a tiny model, and prints what its reports say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from worked import attention, loading, reading, runs, timing

from lightning_perfwatch import Report
from lightning_perfwatch.run_directory import RunDirectory

TINY = (
    "model.num_layers=1",
    "model.num_heads=2",
    "model.embedding_dim=16",
    "data.block_size=16",
    "data.max_bytes=50_000",
    "trainer.max_steps=24",
)


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the command is asked to compare; it is tested elsewhere."""
    asked: list[list[str]] = []

    def perfwatch(arguments: list[str]) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(runs, "perfwatch", perfwatch)
    return asked


def told(
    example: Callable[[Path, Sequence[str]], None],
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    settings: Sequence[str] = (),
) -> tuple[str, list[Report]]:
    """What an example prints, and the reports that it leaves, in their order."""
    example(directory, [*TINY, *settings])
    reports = [RunDirectory(path).read_report() for path in sorted(directory.iterdir())]
    return capsys.readouterr().out, reports


def assert_speeds_are_printed(printed: str, reports: Sequence[Report]) -> None:
    speeds = [report.throughput.tokens_per_s for report in reports]
    assert all(speeds)
    assert re.findall(r"measured: ([\d,]+) tokens/s", printed) == [f"{speed:,.0f}" for speed in speeds]
    ratios = [then / first for first, then in itertools.pairwise(speeds) if first and then]
    assert re.findall(r"that is ([\d.]+) times", printed) == [f"{ratio:.2f}" for ratio in ratios]


def test_dropout_is_taken_away_and_batches_grow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compared: list[list[str]]
) -> None:
    settings = ("data.block_size=128", "data.max_bytes=400_000")  # attention has to weigh something
    printed, reports = told(attention.main, tmp_path, capsys, settings)

    assert_speeds_are_printed(printed, reports)
    assert [runs.find(report, "slow-attention") is not None for report in reports] == [True, False, False]
    names = ["1_dropout", "2_no_dropout", "3_batch_64"]
    assert compared == [
        ["compare", str(tmp_path / first), str(tmp_path / then)] for first, then in itertools.pairwise(names)
    ]
    counted = [report.counted for report in reports]
    assert [one.samples for one in counted if one is not None] == [24 * 16, 24 * 16, 24 * 64]
    for report in reports:
        assert all(op.name in printed for op in report.top_ops[:3])


def test_the_starving_run_gets_the_workers_that_its_finding_advises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, reports = told(loading.main, tmp_path, capsys)

    assert_speeds_are_printed(printed, reports)
    finding = runs.find(reports[0], "dataloader-starvation")
    assert finding is not None
    num_workers = loading.advised_workers(finding)
    assert f"num_workers={num_workers}" in finding.advice
    assert f"As advised: num_workers={num_workers}." in printed
    assert finding.summary in printed


def test_a_run_that_does_not_starve_is_not_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Path] = []

    def train(directory: Path, *settings: Sequence[str]) -> Report:
        trained.append(directory)
        return Report()

    monkeypatch.setattr(loading, "train", train)
    loading.main(tmp_path)

    assert trained == [tmp_path / "1_starving"]
    assert "does not starve: there is nothing to repair" in capsys.readouterr().out


def test_the_read_of_every_step_is_found_and_gone_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, reports = told(reading.main, tmp_path, capsys)

    assert_speeds_are_printed(printed, reports)
    finding = runs.find(reports[0], "host-sync")
    assert finding is not None
    assert finding.summary in printed
    assert "syncing.py:" in printed
    assert runs.find(reports[1], "host-sync") is None


def test_a_product_is_timed_in_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    timing.main(64)

    printed = capsys.readouterr().out
    for name in ("without synchronize", "with synchronize"):
        ms, tflops = re.findall(rf"{name} +([\d.]+) ms +([\d.]+) TFLOP/s", printed)[0]
        assert float(ms) > 0
        assert float(tflops) >= 0
    assert timing.product_s(64, torch.device("cpu"), waits=True) > 0
    assert ("both clocks see the same work" in printed) == (not torch.cuda.is_available())
