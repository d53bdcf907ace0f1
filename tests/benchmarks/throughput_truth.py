"""Whether the tokens/s that PerfWatch reports are those of a loop that is timed by hand.

``python -m tests.benchmarks.throughput_truth [--blocks N]`` trains the example GPT under PerfWatch, and after every
five steps trains a second one on the same batch in a plain loop with a stopwatch around it: in the validation, which
no rate may hold. So both see the machine as it is. Prints both and ends with status 1 if they are further apart than
3 %. Owns that target.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader

from lightning_perfwatch import PerfWatch, Report, Schedule
from lightning_perfwatch.rates import spread
from tests.benchmarks.measuring import ROOT, Figure, median, say, say_figures, say_table

LARGEST_GAP_PERCENT = 3.0
_STEPS = 5  # of a block
_BATCH, _LENGTH, _VOCAB = 16, 128, 256


def new_gpt() -> Any:
    """The example's GPT in the size of ``configs/model/gpt.yaml``, always the same."""
    sys.path.insert(0, str(ROOT / "examples"))
    from gpt import GPT

    seed_everything(7, verbose=False)
    return GPT(vocab_size=_VOCAB, block_size=_LENGTH, num_layers=4, num_heads=4, embedding_dim=128)


def loader(num_steps: int) -> DataLoader[Any]:
    """``num_steps`` batches that are ready: loading them takes no time worth the name."""
    text = torch.randint(_VOCAB, (_BATCH, _LENGTH + 1), generator=torch.Generator().manual_seed(1))
    batch = {"input_ids": text[:, :-1], "labels": text[:, 1:]}
    return DataLoader([batch] * num_steps, batch_size=None)  # type: ignore[arg-type]


def step_by_hand(model: Any, optimizer: Any, batch: Any) -> None:
    """One step of the example's GPT without a Trainer."""
    loss = model.loss(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class ByHand(Callback):
    """Trains a model of its own for one block in each validation; ``tokens_per_s`` are the stopwatch's."""

    def __init__(self) -> None:
        self.tokens_per_s: list[float] = []
        self._model = new_gpt()
        self._optimizer = self._model.configure_optimizers()

    def on_validation_batch_start(self, *args: Any) -> None:
        with torch.enable_grad():
            start_s = time.perf_counter()
            for batch in loader(_STEPS):
                step_by_hand(self._model, self._optimizer, batch)
            self.tokens_per_s.append(_STEPS * _BATCH * _LENGTH / (time.perf_counter() - start_s))


def train(num_blocks: int) -> tuple[Report, list[float]]:
    """The report of a fit of ``num_blocks`` blocks, and what was timed by hand after each of them."""
    hand = ByHand()
    with tempfile.TemporaryDirectory() as folder:
        watch = PerfWatch(Schedule(skip_first=_STEPS, wait=10_000), dir=Path(folder), quiet=True)
        Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            max_epochs=1,
            num_sanity_val_steps=0,
            val_check_interval=_STEPS,
            log_every_n_steps=_STEPS,
            inference_mode=False,
            callbacks=[watch, hand],
        ).fit(new_gpt(), loader(num_blocks * _STEPS), loader(1))
    assert watch.report is not None
    return watch.report, hand.tokens_per_s


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.throughput_truth", description=__doc__)
    parser.add_argument("--blocks", type=int, default=60, metavar="N", help="blocks of five steps (default: 60)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Train both in turn and print them; 1 if they are too far apart."""
    asked = _arguments(argv)
    torch.set_num_threads(1)  # threads that wait for each other magnify whatever else the machine does
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    report, hand = train(asked.blocks)
    assert report.counted is not None
    told = [(i.tokens or 0) / i.duration_s for i in report.counted.intervals if i.clean]
    blocks = list(zip(told, hand[-len(told) :], hand[-len(told) - 1 : -1], strict=True))
    ratios = spread(watched / ((after + before) / 2) for watched, after, before in blocks)
    assert ratios is not None, "more blocks are needed"
    rows = [
        ("median over blocks", f"{median(hand):,.0f}", f"{median(told):,.0f}", f"{ratios.median:.4f}"),
        ("95 % interval", "", "", f"{ratios.low:.4f} to {ratios.high:.4f}"),
        ("report.json, tokens_per_s", "", f"{report.throughput.tokens_per_s:,.0f}", ""),
    ]
    say_table((f"tokens/s, {len(told)} blocks", "by hand", "PerfWatch", "ratio of neighbours"), rows)
    gap_percent = abs(ratios.median - 1) * 100
    figure = Figure("PerfWatch beside the loop timed by hand", gap_percent, LARGEST_GAP_PERCENT, "%", at_least=False)
    say_figures([figure])
    say()
    return 0 if figure.is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
