"""What PerfWatch costs a training run: every target that its own cost is held to.

``python -m tests.benchmarks.overhead [--quick] [--python PATH]`` prints them and ends with status 1 if one is missed.
A tool's cost is the median, over pairs, of a block of 50 steps with it minus the mean of both neighbouring blocks
without it, in one fit. A tool whose patches can't be taken out again, TraceML, has fits of its own, in turn with
fits without a tool. Owns the targets; what is measured in a fit is in ``toy_fit.py`` and ``gpt_fit.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.benchmarks.measuring import ROOT, Figure, interleaved, median, say, say_figures, say_table

_TOY = Path(__file__).with_name("toy_fit.py")
_NO_TOOL = 3
_NAMES = {
    "nothing": "nothing (control)",
    "empty_hooks": "two empty hooks (control)",
    "perfwatch": "PerfWatch",
    "throughput_monitor": "ThroughputMonitor",
    "pytorch_profiler": "PyTorchProfiler after its window",
    "traceml": "TraceML",
    "gpuprof": "gpuprof",
}
_RATIOS = {"throughput_monitor": 0.3, "pytorch_profiler": 0.05, "traceml": 0.02, "gpuprof": 1.0}
_CANNOT_BE_SWITCHED = "traceml"
_NUM_RESAMPLES = 4000


@dataclass(frozen=True)
class Settings:
    """What the benchmark was asked for; ``python`` has the other tools."""

    python: str
    num_steps: int
    num_rounds: int
    num_rounds_apart: int
    num_steps_memory: int
    num_steps_gpt: int
    num_rounds_gpt: int


@dataclass(frozen=True)
class Cost:
    """Microseconds per step that a tool adds: the median over pairs of blocks and its 95 % interval.

    ``cpu_us`` is the same by the training thread's CPU time, which other work on the machine disturbs less.
    """

    us: float
    low_us: float
    high_us: float
    cpu_us: float
    step_us: float
    num_pairs: int


def toy(settings: Settings) -> list[Figure]:
    """A default Trainer and a bare one with a model of 72 parameters."""
    costs = _costs(settings, "default", tuple(name for name in _NAMES if name != _CANNOT_BE_SWITCHED))
    bare = _costs(settings, "bare", ("nothing", "empty_hooks", "perfwatch"))
    own = costs["perfwatch"]
    figures = [
        Figure("net cost per step, default Trainer: the aim", own.us, 0, "us", False),
        Figure("net cost per step, default Trainer: the limit", own.us, 20, "us", False),
        Figure("net cost per step, bare Trainer: the limit", bare["perfwatch"].us, 20, "us", False),
    ]
    others_us = {tool: cost.us for tool, cost in costs.items()} | _cost_apart_us(settings, _CANNOT_BE_SWITCHED)
    for tool, most in _RATIOS.items():
        if tool in others_us:
            ratio = own.us / others_us[tool] if others_us[tool] > 0 else math.inf  # noise: it can't be told
            figures.append(Figure(f"of the cost of {_NAMES[tool]}", ratio, most, "x", False))
    return figures


def waiting(settings: Settings) -> list[Figure]:
    """Calls that wait, with PerfWatch and without it."""
    num_steps = 600
    counts = {tool: _toy(settings, tool, "default", num_steps, "waits") for tool in ("perfwatch", "nothing")}
    added = counts["perfwatch"]["num_waits"] - counts["nothing"]["num_waits"]
    return [
        Figure(".item() and the like added in 400 steps", added, 0, "", False),
        Figure("synchronisations by PerfWatch's own count", counts["perfwatch"]["said"]["num_synchronizations"], 0, "",
               False),
    ]  # fmt: skip


def memory(settings: Settings) -> list[Figure]:
    """Resident memory over the second half of a long fit."""
    num_steps = settings.num_steps_memory
    grown = {}
    for tool in ("perfwatch", "nothing"):
        first, last = _toy(settings, tool, "bare", num_steps, "memory")["bytes"]
        grown[tool] = (last - first) / 1e6
    say(f"  from step {num_steps // 2} to {num_steps}: {grown['perfwatch']:.2f} MB, without {grown['nothing']:.2f} MB")
    return [Figure("memory grown in the second half, beyond a fit without it", grown["perfwatch"] - grown["nothing"], 1,
                   "MB", False)]  # fmt: skip


def gpt(settings: Settings) -> list[Figure]:
    """The example GPT: share of the step, and the stall after the window's last step, medians over its fits."""
    command = [sys.executable, "-m", "tests.benchmarks.gpt_fit", str(settings.num_steps_gpt)]
    fits = [
        _answer(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False))
        for _ in range(settings.num_rounds_gpt)
    ]
    said = {name: median(one[name] for one in fits) for name in fits[0]}
    net_s = said["hook_s"] + said["listening_s"] - said["spared_s"]
    say(
        f"  step {said['step_s'] * 1e3:.0f} ms; hooks {said['hook_s'] * 1e6:.0f} us, listening "
        f"{said['listening_s'] * 1e6:.0f} us in place of {said['spared_s'] * 1e6:.0f} us; stall "
        f"{said['stall_s'] * 1e3:.0f} ms, export {said['export_s'] * 1e3:.0f} ms"
    )
    return [
        Figure("net, of the step", net_s / said["step_s"] * 100, 0.2, "%", False),
        Figure("stall after the window beyond its export", (said["stall_s"] - said["export_s"]) * 1e3, 50, "ms", False),
    ]


def _costs(settings: Settings, kind: str, tools: Sequence[str]) -> dict[str, Cost]:
    present = [tool for tool in tools if _is_there(settings, tool)]
    tasks: dict[str, Callable[[], Any]] = {
        tool: partial(_try_toy, settings, tool, kind, settings.num_steps, "measure") for tool in present
    }
    answers = interleaved(tasks, settings.num_rounds)
    costs = {tool: _cost(runs) for tool, runs in answers.items() if all(run is not None for run in runs)}
    rows = [_row(_NAMES[tool], costs.get(tool), tool in present) for tool in tools]
    say(f"Microseconds per step on a {kind} Trainer, switched on and off every 50 steps; plain step "
        f"{median(cost.step_us for cost in costs.values()):.0f} us.")  # fmt: skip
    say_table(("tool", "us per step", "95 % interval", "by CPU time", "pairs"), rows)
    return costs


def _cost_apart_us(settings: Settings, tool: str) -> dict[str, float]:
    """Microseconds per step of a tool that is on in whole fits, beyond fits without one; empty where it is missing."""
    if not _is_there(settings, tool):
        return {}
    tasks = {name: partial(_try_toy, settings, name, "default", settings.num_steps // 2, "whole")
             for name in ("nothing", "perfwatch", tool)}  # fmt: skip
    answers = interleaved(tasks, settings.num_rounds_apart)
    if any(run is None for run in answers[tool]):
        return {}
    steps_us = {name: [float(np.median(_blocks(run, "at_ns"))) for run in runs] for name, runs in answers.items()}
    costs_us = {name: median(us) - median(steps_us["nothing"]) for name, us in steps_us.items()}
    say(f"Microseconds per step on a default Trainer, medians of {settings.num_rounds_apart} whole fits each.")
    rows = [
        (_NAMES[name], f"{costs_us[name]:+.0f}", f"{min(us):.0f} to {max(us):.0f}") for name, us in steps_us.items()
    ]
    say_table(("tool", "us per step", "steps of (us)"), rows)
    return {tool: costs_us[tool]}


def _row(name: str, cost: Cost | None, is_there: bool) -> tuple[str, ...]:
    if cost is None:
        return name, "failed" if is_there else "not installed", "", "", ""
    interval = f"[{cost.low_us:+.1f}, {cost.high_us:+.1f}]"
    return name, f"{cost.us:+.1f}", interval, f"{cost.cpu_us:+.1f}", str(cost.num_pairs)


def _cost(runs: Sequence[dict[str, Any]]) -> Cost:
    wall_us = np.concatenate([_pairs(run, "at_ns") for run in runs])
    cpu_us = np.concatenate([_pairs(run, "cpu_ns") for run in runs])
    draws = np.random.default_rng(0).choice(wall_us, (_NUM_RESAMPLES, len(wall_us)))
    low_us, high_us = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    step_us = median(float(np.median(_blocks(run, "at_ns")[0::2])) for run in runs)
    return Cost(
        float(np.median(wall_us)), float(low_us), float(high_us), float(np.median(cpu_us)), step_us, len(wall_us)
    )


def _blocks(run: dict[str, Any], clock: str) -> npt.NDArray[np.float64]:
    """Mean microseconds of a step in each block, without the step in which the tool was switched; off comes first."""
    steps_us = np.diff(np.array(run[clock], dtype=np.int64)[run["first"] :]) / 1e3
    num_blocks = len(steps_us) // run["every"]
    return np.asarray(steps_us[: num_blocks * run["every"]].reshape(num_blocks, run["every"])[:, 1:].mean(axis=1))


def _pairs(run: dict[str, Any], clock: str) -> npt.NDArray[np.float64]:
    blocks_us = _blocks(run, clock)
    on = np.arange(1, len(blocks_us) - 1, 2)
    return np.asarray(blocks_us[on] - (blocks_us[on - 1] + blocks_us[on + 1]) / 2)


def _is_there(settings: Settings, tool: str) -> bool:
    done = _run(settings, tool, "default", 0, "measure")
    if done.returncode == _NO_TOOL:
        say(f"  {tool} skipped: {json.loads(done.stdout.splitlines()[-1])} in {settings.python}")
    return done.returncode != _NO_TOOL


def _try_toy(settings: Settings, tool: str, kind: str, num_steps: int, what: str) -> Any:
    """The measurement, or None where another tool fails; PerfWatch and the controls may not."""
    try:
        return _toy(settings, tool, kind, num_steps, what)
    except RuntimeError as error:
        if tool not in ("traceml", "gpuprof"):
            raise
        say(f"  {tool} failed: {error}")
        return None


def _toy(settings: Settings, tool: str, kind: str, num_steps: int, what: str) -> dict[str, Any]:
    return _answer(_run(settings, tool, kind, num_steps, what))


def _run(settings: Settings, tool: str, kind: str, num_steps: int, what: str) -> subprocess.CompletedProcess[str]:
    python = settings.python if tool in ("traceml", "gpuprof") else sys.executable
    command = [python, str(_TOY), tool, kind, str(num_steps), what]
    path = [str(ROOT)] if tool == "perfwatch" else []
    environment = {"PYTHONPATH": ":".join(path)} if path else {}
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**_environment(), **environment})


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode != 0:
        raise RuntimeError(f"it ended with status {done.returncode}: {done.stderr[-300:].strip()}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


SECTIONS: dict[str, Callable[[Settings], list[Figure]]] = {
    "toy": toy,
    "waiting": waiting,
    "memory": memory,
    "gpt": gpt,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections; 1 if a target is missed, which ``--quick`` does not judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.overhead", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short fits, to see that everything runs")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="interpreter with the other tools")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section only (repeatable)")
    asked = parser.parse_args(argv)
    settings = (
        Settings(asked.python, 700, 1, 1, 2000, 40, 1)
        if asked.quick
        else Settings(asked.python, 12_000, 2, 7, 20_000, 150, 5)
    )
    missed = []
    for name in asked.only or SECTIONS:
        start_s = time.perf_counter()
        say(f"\n{name}")
        figures = SECTIONS[name](settings)
        say_figures(figures)
        say(f"  ({time.perf_counter() - start_s:.0f} s)")
        missed += [figure for figure in figures if not figure.is_reached]
    say(f"\ntargets missed: {len(missed)}{' (not judged with --quick)' if asked.quick else ''}")
    return 1 if missed and not asked.quick else 0


if __name__ == "__main__":
    sys.exit(main())
