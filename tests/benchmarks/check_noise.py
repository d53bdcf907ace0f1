"""Whether ``perfwatch check`` stays silent on repeated runs and finds a planted slow-down.

``python -m tests.benchmarks.check_noise [--runs N] [--baseline N] [--steps N]`` trains a small GPT in child processes:
first the runs of the baseline, then in turn one more of the same and one with a busy wait of 10 % of the step. Each is
checked by the command itself, with its documented settings. Prints a table and ends with status 1 if a repeated run
fails, or fewer than nine of ten slower ones do. Owns these targets.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import ROOT, Figure, say, say_figures, say_table

SLOWDOWN = 0.1
LEAST_FOUND = 0.9


@dataclass(frozen=True)
class Checked:
    """What the check said of one run; shares are of the time that the same work takes.

    ``low_share`` is the lower end of its interval, ``best_share`` and ``best_low_share`` are the same of the faster
    intervals. ``pace_share`` is how much longer a fixed piece of work took. A run with too few intervals has the status
    2 and no shares.
    """

    status: int
    share: float = math.nan
    low_share: float = math.nan
    best_share: float = math.nan
    best_low_share: float = math.nan
    pace_share: float = math.nan


def _child(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def train(folder: Path, num_steps: int, busy_s: float) -> dict[str, Any]:
    """One fit that leaves its run directory in ``folder``; its report.

    Raises:
        RuntimeError: it failed; the message ends with its last words.
    """
    done = _child("tests.benchmarks.noise_fit", folder, num_steps, busy_s * 1e6)
    if done.returncode != 0:
        raise RuntimeError(f"The fit ended with status {done.returncode}: {done.stderr[-300:].strip()}")
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def check(folder: Path, baseline: Path) -> Checked:
    """The command's verdict on one run."""
    done = _child("lightning_perfwatch", "check", folder, "--baseline", baseline, "--format", "json")
    if done.returncode not in (0, 1):
        say(f"  not judged: {done.stderr.strip()}")
        return Checked(done.returncode)
    told = json.loads(done.stdout)
    whole, best = (told[name] or {} for name in ("slowdown", "slowdown_at_best"))
    pace_share = whole.get("pace_share")
    return Checked(
        done.returncode,
        whole.get("share", math.nan),
        whole.get("low_share", math.nan),
        best.get("share", math.nan),
        best.get("low_share", math.nan),
        math.nan if pace_share is None else pace_share,
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.check_noise", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each kind (default: 20)")
    parser.add_argument("--baseline", type=int, default=20, metavar="N", help="runs of the baseline (default: 20)")
    parser.add_argument("--steps", type=int, default=800, metavar="N", help="steps of a run (default: 800)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Train, check and print; 1 if a target is missed."""
    asked = _arguments(argv)
    with tempfile.TemporaryDirectory(prefix="perfwatch-check-") as name:
        folder = Path(name)
        baseline, steps_s = folder / "baseline.json", []
        for number in range(asked.baseline):
            run = folder / f"baseline{number}"
            steps_s.append(1 / train(run, asked.steps, 0.0)["throughput"]["steps_per_s"])
            _child("lightning_perfwatch", "check", run, "--baseline", baseline, "--update", "--max-slowdown", "1000")
        busy_s = SLOWDOWN * statistics.median(steps_s)
        spread = statistics.stdev(steps_s) / statistics.mean(steps_s) if len(steps_s) > 1 else 0.0
        say(f"  baseline: {asked.baseline} runs, {1e3 * statistics.median(steps_s):.1f} ms a step, spread {spread:.1%}")
        found: dict[str, list[Checked]] = {"repeated": [], "10 % slower": []}
        for number in range(asked.runs):
            for kind, wait_s in (("repeated", 0.0), ("10 % slower", busy_s)):
                run = folder / f"{kind[:2]}{number}"
                train(run, asked.steps, wait_s)
                found[kind].append(check(run, baseline))
    return _say(found)


def _change(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:+.1%}"


def _say(found: dict[str, list[Checked]]) -> int:
    rows = [
        (
            f"{kind} {number}",
            *map(_change, (one.share, one.low_share, one.best_share, one.best_low_share, one.pace_share)),
            ("passes", "fails", "not judged")[one.status],
        )
        for kind, ones in found.items()
        for number, one in enumerate(ones, start=1)
    ]
    say_table(("run", "slower by", "at least", "at its best", "at least", "machine by", "check"), rows)
    alarms, hits = (sum(one.status == 1 for one in ones) for ones in found.values())
    num = len(found["repeated"])
    figures = [
        Figure(f"repeated runs that fail, of {num}", alarms, 0, "runs", at_least=False),
        Figure(f"runs with a planted slow-down that fail, of {num}", hits, LEAST_FOUND * num, "runs"),
    ]
    say_figures(figures)
    return 0 if all(figure.is_reached for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
