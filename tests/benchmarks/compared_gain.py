"""Whether ``perfwatch compare`` tells the gain that a stopwatch tells, of the first worked example's first fix.

``python -m tests.benchmarks.compared_gain [--rounds N]`` trains the example GPT with dropout and without it under
PerfWatch and compares the two reports. Before and after each run it trains the same model in a plain loop by hand, so
that both see the machine as it is. Prints each round; ends with status 1 if in too many of them the interval does not
hold the gain by hand, or if the fixed findings are not told. Owns these targets.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from lightning_perfwatch import Report
from lightning_perfwatch.comparison import compare
from tests.benchmarks.measuring import ROOT, Figure, median, say_figures, say_table
from tests.benchmarks.throughput_truth import step_by_hand

FIXED_RULES = ("dropout-cost", "slow-attention")
LEAST_SHARE_OF_ROUNDS = 0.6
_DROPOUTS = {"before": 0.1, "after": 0.0}
_STEPS_BY_HAND = 8
_WARMUP_STEPS = 2


def _overrides(dropout: float) -> list[str]:
    return [f"model.dropout={dropout}", "data.batch_size=16"]


class ByHand:
    """The example's model and data in a plain loop with a stopwatch."""

    def __init__(self, dropout: float) -> None:
        with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
            config = compose("train", overrides=_overrides(dropout))
        self._model: Any = instantiate(config.model)
        self._optimizer = self._model.configure_optimizers()
        self._data = instantiate(config.data)
        self._data.setup("fit")
        self.step_s: list[float] = []

    def train(self) -> None:
        """Some steps, of which each is timed from its request for a batch to its end."""
        start_s = time.perf_counter()
        for step, batch in enumerate(self._data.train_dataloader()):
            step_by_hand(self._model, self._optimizer, batch)
            end_s = time.perf_counter()
            if step >= _WARMUP_STEPS:
                self.step_s.append(end_s - start_s)
            if step + 1 == _WARMUP_STEPS + _STEPS_BY_HAND:
                return
            start_s = end_s


def one_round(folder: Path) -> tuple[dict[str, Report], float]:
    """The two reports, and how many times as fast the second is by hand."""
    from worked.runs import train

    hands = {name: ByHand(dropout) for name, dropout in _DROPOUTS.items()}
    reports = {}
    for name, dropout in _DROPOUTS.items():
        hands[name].train()
        with contextlib.redirect_stdout(io.StringIO()):
            reports[name] = train(folder / name, _overrides(dropout))
        hands[name].train()
    return reports, median(hands["before"].step_s) / median(hands["after"].step_s)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compared_gain", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="pairs of runs (default: 5)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Print every round; 1 if a target is missed."""
    asked = _arguments(argv)
    sys.path.insert(0, str(ROOT / "examples"))
    warnings.simplefilter("ignore")
    rows, num_held, num_told = [], 0, 0
    for number in range(1, asked.rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            reports, by_hand = one_round(Path(folder))
        comparison = compare(reports["before"], reports["after"])
        change = comparison.main
        assert change is not None
        assert change.ratio is not None
        assert change.low is not None
        assert change.high is not None
        gone = sorted(one.before.rule for one in comparison.findings if one.kind == "gone" and one.before is not None)
        num_held += change.low <= by_hand <= change.high
        num_told += set(FIXED_RULES) <= set(gone)
        interval = f"{change.low:.3f} to {change.high:.3f}"
        rows.append((str(number), f"{change.ratio:.3f}", interval, f"{by_hand:.3f}", ", ".join(gone)))
    say_table(("round", "compare: times as fast", "95 % interval", "by hand", "findings gone"), rows)
    figures = [
        Figure("rounds whose interval holds the gain by hand", num_held, LEAST_SHARE_OF_ROUNDS * asked.rounds, ""),
        Figure("rounds in which the fixed findings are told", num_told, asked.rounds, ""),
    ]
    say_figures(figures)
    return 0 if all(figure.is_reached for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
