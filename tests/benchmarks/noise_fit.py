"""One short fit of a small GPT under PerfWatch, which leaves its run directory, with a busy wait in each step if asked.

Run as ``python -m tests.benchmarks.noise_fit FOLDER NUM_STEPS BUSY_US``. Knows nothing of baselines.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def main() -> int:
    """Train and leave ``report.json`` in the folder."""
    folder, num_steps, busy_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1e6
    sys.path.insert(0, str(EXAMPLES))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import torch
    from data import TextDataModule
    from gpt import GPT
    from lightning.pytorch import Trainer, seed_everything

    from lightning_perfwatch import PerfWatch

    class Waiting(GPT):
        def training_step(self, *arguments: Any) -> Any:
            until_s = time.perf_counter() + busy_s
            while time.perf_counter() < until_s:
                pass
            return super().training_step(*arguments)

    Waiting.__name__ = "GPT"
    torch.set_num_threads(1)  # threads that wait for each other magnify whatever else the machine does
    seed_everything(7, verbose=False)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # noqa: PTH123 - a device
        model = Waiting(vocab_size=256, block_size=64, num_layers=2, num_heads=4, embedding_dim=128)
        trainer = Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            max_steps=num_steps,
            limit_val_batches=0,
            log_every_n_steps=5,
            callbacks=[PerfWatch(dir=folder, quiet=True)],
        )
        trainer.fit(model, datamodule=TextDataModule(batch_size=8, block_size=64))
    return 0


if __name__ == "__main__":
    sys.exit(main())
