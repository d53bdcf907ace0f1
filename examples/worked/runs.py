"""One short run of `configs/train.yaml` and what its report says, in plain lines.

Owns how the examples train and print; knows no fault and no fix.
"""

import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from lightning.pytorch import LightningDataModule, LightningModule, Trainer, seed_everything

from lightning_perfwatch import Finding, PerfWatch, Report
from lightning_perfwatch.cli import main as perfwatch

CONFIGS = Path(__file__).parents[2] / "configs"

SHORT = (
    "trainer.max_steps=60",
    "trainer.limit_val_batches=0",
    "trainer.log_every_n_steps=2",
    "callbacks.perfwatch.schedule.skip_first=3",
    "callbacks.perfwatch.schedule.wait=5",
)
"""Steps 10 to 14 are profiled; the others are measured two by two, so that there are enough rates for an interval."""


def train(directory: Path, overrides: Iterable[str], last: Sequence[str] = ()) -> Report:
    """Train with these settings, and `last` over them; the report, which also lies in `directory`.

    The losses are those of `examples/train.py` with the same settings.
    """
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", overrides=[*SHORT, *overrides, *last])
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    seed_everything(config.seed, workers=True, verbose=False)
    model: LightningModule = instantiate(config.model)
    data: LightningDataModule = instantiate(config.data)
    watch: PerfWatch = instantiate(config.callbacks.perfwatch, dir=directory, quiet=True)
    trainer: Trainer = instantiate(
        config.trainer,
        callbacks=[watch],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=directory,
    )
    trainer.fit(model, datamodule=data)
    if watch.report is None:
        raise RuntimeError(f"the run in {directory} left no report")
    return watch.report


def tell(title: str, report: Report) -> None:
    """Print how fast a run was, its three slowest operations and what was found."""
    speed = report.throughput
    step = speed.step_time_s
    rate = "not measured" if speed.tokens_per_s is None else f"{speed.tokens_per_s:,.0f} tokens/s"
    time = "no steady step" if step is None else f"{step.p50 * 1e3:.1f} ms in the median step"
    print(f"{title}: {rate}, {time}")
    for op in report.top_ops[:3]:
        print(f"  {op.share * 100:4.0f} %  {op.name}")
    for finding in report.findings:
        cost = "not measured" if finding.share is None else f"{finding.share * 100:.0f} % of the {finding.share_of}"
        print(f"  {finding.severity.value}: {finding.rule} ({cost})")
    sys.stdout.flush()


def find(report: Report, rule: str) -> Finding | None:
    """What `rule` found; None if it found nothing."""
    return next((finding for finding in report.findings if finding.rule == rule), None)


def explain(finding: Finding) -> None:
    """Print what was found, where, and the fix."""
    print(f"  {finding.summary}")
    if finding.where.file is not None:
        print(f"  at {finding.where}")
    print(f"  fix: {finding.advice}")


def ratio(before: Report, after: Report) -> str:
    """How many times as many tokens per second `after` has, in words."""
    first, then = before.throughput.tokens_per_s, after.throughput.tokens_per_s
    if not first or not then:
        return "the rates were not measured"
    return f"{then / first:.2f} times the tokens per second"


def compare(before: Path, after: Path) -> int:
    """Let the command compare two run directories, as one would in a shell; its exit code."""
    print(f"$ perfwatch compare {before} {after}", flush=True)
    return perfwatch(["compare", str(before), str(after)])
