"""Train the small GPT as `configs/train.yaml` says; PerfWatch is one entry of its `callbacks` group.

    python examples/train.py
    python examples/train.py experiment=dataloader_starvation trainer.max_steps=60

Everything a run writes goes to `outputs/<date>/<time>/` below the directory it was started from.
"""

from typing import cast

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from lightning.pytorch import LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import TensorBoardLogger
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="../configs", config_name="train")
def main(config: DictConfig) -> None:
    """Build the model, the data and the Trainer from the config, and fit."""
    seed_everything(config.seed, workers=True)
    if config.num_threads is not None:
        torch.set_num_threads(config.num_threads)
    output_dir = HydraConfig.get().runtime.output_dir
    model: LightningModule = instantiate(config.model)
    if config.compile is not None:
        model = cast(LightningModule, torch.compile(model, **config.compile))
    data: LightningDataModule = instantiate(config.data)
    trainer: Trainer = instantiate(
        config.trainer,
        callbacks=list(instantiate(config.callbacks).values()),
        # No name and no version: Hydra's directory already is one run's own. Without hp_metric TensorBoard's hparams
        # tab shows the model's hyperparameters together with PerfWatch's settings and results.
        logger=TensorBoardLogger(output_dir, name="", version="", default_hp_metric=False),
        default_root_dir=output_dir,
    )
    trainer.fit(model, datamodule=data)
    losses = ", ".join(f"{name} {value.item():.3f}" for name, value in trainer.callback_metrics.items())
    print(f"{trainer.global_step} steps: {losses}. Logs and checkpoints: {output_dir}")


if __name__ == "__main__":
    main()
