"""The example's configs build, each experiment plants a fault, and the script runs from anywhere."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from data import TextDataModule
from gpt import GPT
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from omegaconf import DictConfig

ROOT = Path(__file__).parents[2]
EXPERIMENTS = sorted(path.stem for path in (ROOT / "configs/experiment").glob("*.yaml"))


def composed(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        return compose("train", overrides=list(overrides))


def flat(config: DictConfig) -> dict[str, Any]:
    return {f"{group}.{key}": value for group in ("model", "data", "trainer") for key, value in config[group].items()}


def planted(experiment: str) -> dict[str, Any]:
    """What an experiment changes in a healthy model, one without dropout."""
    healthy = flat(composed("model.dropout=0.0"))
    return {
        key: value for key, value in flat(composed(f"experiment={experiment}")).items() if value != healthy.get(key)
    }


@pytest.mark.parametrize("experiment", [None, *EXPERIMENTS])
def test_config_builds_what_it_names(experiment: str | None, tmp_path: Path) -> None:
    chosen = [f"experiment={experiment}"] if experiment else []
    config = composed("callbacks=none", *chosen)
    assert isinstance(instantiate(config.model), GPT)
    assert isinstance(instantiate(config.data), TextDataModule)
    assert isinstance(instantiate(config.trainer, logger=False, default_root_dir=tmp_path), Trainer)
    assert all(isinstance(callback, Callback) for callback in instantiate(config.callbacks).values())


@pytest.mark.parametrize(("model", "data"), [("gpt", "stdlib_text"), ("classifier", "jpegs"), ("gan", "pictures")])
def test_each_model_and_its_data_build(model: str, data: str) -> None:
    config = composed(f"model={model}", f"data={data}")
    assert isinstance(instantiate(config.model), LightningModule)
    assert isinstance(instantiate(config.data), LightningDataModule)


def test_the_first_experiments_plant_exactly_one_fault() -> None:
    assert {experiment: list(planted(experiment)) for experiment in ("dataloader_starvation", "host_sync")} == {
        "dataloader_starvation": ["data.load_time_s"],
        "host_sync": ["model._target_", "data.batch_size"],
    }


def test_command_line_has_the_last_word_over_an_experiment() -> None:
    config = composed("experiment=dataloader_starvation", "trainer.max_steps=60", "data.load_time_s=0.5")
    assert (config.trainer.max_steps, config.data.load_time_s) == (60, 0.5)


def test_script_trains_and_writes_below_the_directory_it_was_started_from(tmp_path: Path) -> None:
    tiny = "model.num_layers=1 model.embedding_dim=16 data.block_size=16 data.max_bytes=5_000"
    short = "trainer.max_steps=4 trainer.val_check_interval=2 trainer.limit_val_batches=1 callbacks=none"
    run = subprocess.run(
        [sys.executable, ROOT / "examples/train.py", *tiny.split(), *short.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "4 steps: train_loss" in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
    (output_dir,) = tmp_path.glob("outputs/*/*")
    assert list(output_dir.glob("events.out.tfevents.*"))
    assert list(output_dir.glob("checkpoints/*.ckpt"))
