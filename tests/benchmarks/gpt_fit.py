"""One fit of the example GPT under PerfWatch: its step, the stall after the window, and what PerfWatch says it cost.

Run as ``python -m tests.benchmarks.gpt_fit NUM_STEPS``; prints JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
LAST_ACTIVE = 26  # of the default schedule


def main() -> int:
    """Print the figures on a line of their own at the end."""
    sys.path.insert(0, str(EXAMPLES))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from data import TextDataModule
    from gpt import GPT
    from lightning.pytorch import Trainer

    from lightning_perfwatch import PerfWatch

    begun_s: list[float] = []
    stepped_s: list[float] = []

    class Timed(GPT):
        def training_step(self, *arguments: Any) -> Any:
            begun_s.append(time.perf_counter())
            return super().training_step(*arguments)

        def optimizer_step(self, *arguments: Any, **settings: Any) -> None:
            super().optimizer_step(*arguments, **settings)
            stepped_s.append(time.perf_counter())

    watch = PerfWatch(quiet=True)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        os.chdir(folder)
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            model = Timed(vocab_size=256, block_size=128, num_layers=4, num_heads=4, embedding_dim=128)
            trainer = Trainer(accelerator="cpu", max_steps=int(sys.argv[1]), limit_val_batches=0, callbacks=[watch])
            trainer.fit(model, datamodule=TextDataModule(batch_size=16, block_size=128))
        os.chdir("/")
    report = watch.report
    assert report is not None
    assert report.overhead is not None
    steps_s = [later - earlier for earlier, later in itertools.pairwise(begun_s)]
    between_s = [later - earlier for earlier, later in zip(stepped_s, begun_s[1:], strict=False)]
    overhead = report.overhead
    figures = {
        "step_s": statistics.median(steps_s[LAST_ACTIVE + 2 :]),
        "hook_s": (overhead.hook_us_per_step or 0.0) / 1e6,
        "listening_s": overhead.listening_s,
        "spared_s": overhead.spared_s,
        "stall_s": between_s[LAST_ACTIVE] - statistics.median(between_s[LAST_ACTIVE + 2 :]),
        "export_s": overhead.export_s,
    }
    sys.stdout.write(f"\n{json.dumps(figures)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
