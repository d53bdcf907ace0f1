"""How fast, how small and how careful traces are read: every table that the trace engine is held to.

``python -m tests.benchmarks.trace_reading [--quick] [--python PATH]`` prints them and ends with status 1 if a target
is missed. Owns the targets; its inputs are made in a temporary folder.
``--quick`` takes small ones, to see that all of it runs: there, start-up and imports weigh more than reading, so only
the fuzz test decides the status.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from tests.benchmarks.measuring import (
    ROOT,
    Figure,
    Run,
    interleaved,
    measure,
    measure_apart,
    median,
    say,
    say_figures,
    say_table,
)
from tests.benchmarks.reading_inputs import QUICK, Settings, Sizes

_MIB = 1 << 20
_TOOLS = Path(__file__).with_name("tools.py")
# What a tool is called, how much faster to be, and on which trace.
_TOOL_TARGETS = {
    "events": ("prof.events() + key_averages()", 20.0, "live"),
    "hta": ("HolisticTraceAnalysis, parse + breakdown", 20.0, "device"),
    "tb_profiler": ("torch-tb-profiler, loader", 15.0, "live"),
    "gpu_idle": ("gpu-idle", 6.0, "device"),
}
_NO_TOOL = 3
_NUM_OFFENDERS_SHOWN = 5
_NUM_CORE_ROUNDS = 5


def reading(settings: Settings) -> list[Figure]:
    """From file to report as a whole process: speed, memory, linearity."""
    sizes = settings.sizes
    paths = {f"{size_mb:g}": settings.trace(size_mb) for size_mb in sizes.table_mb}
    rounds = {name: 1 if float(name) > sizes.reference_mb else sizes.num_rounds for name in paths}
    shaped = f"{sizes.reference_mb:g} with shapes"
    paths[shaped] = settings.trace(sizes.reference_mb, with_shapes=True)
    rounds[shaped] = sizes.num_rounds
    runs = interleaved({name: partial(measure, _command(path)) for name, path in paths.items()}, rounds)
    megabytes = {name: path.stat().st_size / 1e6 for name, path in paths.items()}
    say("From file to report: a whole `perfwatch analyze FILE --format json`, medians.")
    say_table(
        ("trace", "MB of JSON", "wall s", "CPU s", "MB/s wall", "MB/s CPU", "peak MiB", "peak/size"),
        [(name, *_row(megabytes[name], runs[name])) for name in paths],
    )
    reference, largest = f"{sizes.reference_mb:g}", f"{sizes.largest_mb:g}"
    cost_s = {name: _cpu_s(runs[name]) / megabytes[name] for name in paths}
    peak = {name: max(run.peak_bytes for run in runs[name]) for name in paths}
    return [
        Figure(f"speed per core at {shaped} (CPU time)", 1 / cost_s[shaped], 150, "MB/s"),
        Figure(
            f"peak memory at {reference} MB, of the JSON's size", _of_size(peak, megabytes, reference), 0.75, "x", False
        ),
        Figure(f"peak memory at {largest} MB", peak[largest] / 1e9, 1.2, "GB", False),
        Figure(
            f"cost per MB at {largest} MB, of that at {reference} MB",
            cost_s[largest] / cost_s[reference],
            1.25,
            "x",
            False,
        ),
    ]


def start_up(settings: Settings) -> list[Figure]:
    """A trace of 1 MB as a whole process."""
    runs = [measure(_command(settings.trace(1))) for _ in range(settings.sizes.num_starts)]
    return [Figure("perfwatch analyze on 1 MB, start-up included", median(run.wall_s for run in runs), 0.5, "s", False)]


def two_cores(settings: Settings) -> list[Figure]:
    """A folder of ranks on one core and on two."""
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        say("  skipped: this needs two cores and a system that can hold a process to one of them")
        return []
    sizes, cores = settings.sizes, sorted(os.sched_getaffinity(0))
    folder, halves = settings.folder / "ranks", (settings.folder / "even", settings.folder / "odd")
    for rank in range(sizes.num_ranks):
        for place in (folder, halves[rank % 2]):
            place.mkdir(exist_ok=True)
            os.link(settings.trace(sizes.reference_mb), place / f"rank{rank}.pt.trace.json")
    tasks: dict[str, Callable[[], float]] = {
        "one": lambda: measure(_command(folder), cores[0]).wall_s,
        "all": lambda: measure(_command(folder)).wall_s,
        "apart": lambda: measure_apart([_command(half) for half in halves]),
    }
    seconds = {name: median(runs) for name, runs in interleaved(tasks, _NUM_CORE_ROUNDS).items()}
    gain, apart = (seconds["one"] / seconds[name] for name in ("all", "apart"))
    say(
        f"  {sizes.num_ranks} ranks of {sizes.reference_mb:g} MB: {seconds['one']:.2f} s on one core, "
        f"{seconds['all']:.2f} s on all; half of them by each of two commands at a time {seconds['apart']:.2f} s"
    )
    return [
        Figure(f"a folder of ranks on {len(cores)} cores, against one", gain, 1.7, "x"),
        Figure("of what this machine gives two separate commands", gain / apart, 0.95, "x"),
    ]


def other_tools(settings: Settings) -> list[Figure]:
    """Every tool where it does its whole job, against this one on the same events in the same minutes.

    torch's own lists need a live profile, of which torch-tb-profiler reads the exported file; HolisticTraceAnalysis
    and gpu-idle break down device work, of which the synthetic trace, one with shapes, is full. Imports are not
    counted.
    """
    present = [tool for tool in _TOOL_TARGETS if _is_there(settings.python, tool)]
    readers = {
        kind: [t for t in present if _TOOL_TARGETS[t][2] == kind and t != "events"] for kind in ("live", "device")
    }
    traces = {
        "live": settings.folder / "live.pt.trace.json",
        "device": settings.trace(settings.sizes.tools_mb, with_shapes=True),
    }
    seconds = {"device": _compared(settings, traces["device"], readers["device"])}
    if "events" in present:
        seconds["live"] = _compared(settings, traces["live"], readers["live"], str(settings.sizes.num_events))
    head = ("trace", "MB", "perfwatch s", *(f"{tool} s" for tool in present), *(f"{tool} x" for tool in present))
    say_table(head, [_tools_row(name, traces[name], measured, present) for name, measured in seconds.items()])
    return [
        Figure(f"against {name}", seconds[kind][tool] / seconds[kind]["perfwatch"], target, "x")
        for tool, (name, target, kind) in _TOOL_TARGETS.items()
        if tool in present and kind in seconds
    ]


def _tools_row(kind: str, trace: Path, seconds: Mapping[str, float], tools: Sequence[str]) -> tuple[str, ...]:
    own_s = seconds["perfwatch"]
    measured = [f"{seconds[tool]:.2f}" if tool in seconds else "-" for tool in tools]
    ratios = [f"{seconds[tool] / own_s:.1f}" if tool in seconds else "-" for tool in tools]
    return (kind, f"{trace.stat().st_size / 1e6:.0f}", f"{own_s:.2f}", *measured, *ratios)


def _compared(
    settings: Settings, trace: Path, tools: Sequence[str], num_live_events: str | None = None
) -> dict[str, float]:
    """Median seconds by tool; with ``num_live_events`` the trace is recorded and exported anew in every round."""
    tasks: dict[str, Callable[[], float]] = {}
    if num_live_events is not None:
        tasks["events"] = partial(_tool_s, settings.python, "events", trace, num_live_events)
    tasks["perfwatch"] = partial(_tool_s, sys.executable, "perfwatch", trace)
    tasks |= {tool: partial(_tool_s, settings.python, tool, trace) for tool in tools}
    return {tool: median(times) for tool, times in interleaved(tasks, settings.sizes.num_rounds).items()}


def fuzz(settings: Settings) -> list[Figure]:
    """Damaged traces: reports and sentences only."""
    command = [sys.executable, "-m", "tests.benchmarks.fuzzing"]
    with tempfile.TemporaryFile("w+") as first, tempfile.TemporaryFile("w+") as second:
        children = [
            subprocess.Popen(
                [*command, str(number), "2", str(settings.num_mutations)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=seeds,
                text=True,
            )
            for number, seeds in enumerate((first, second))
        ]
        answers = [child.communicate()[0].splitlines() for child in children]
        deaths = [_death(child, seeds) for child, seeds in zip(children, (first, second), strict=True)]
    lines = [json.loads(line) for answer in answers for line in answer]
    offenders = [line for line in lines if "seed" in line] + [death for death in deaths if death]
    counts = {kind: sum(line.get(kind, 0) for line in lines) for kind in ("reports", "sentences")}
    say(f"  {settings.num_mutations} mutations: {counts['reports']} reports, {counts['sentences']} sentences")
    for offender in offenders[:_NUM_OFFENDERS_SHOWN]:
        say(f"  seed {offender['seed']}: {offender['said'].strip()}")
    return [Figure("anything but a report or a sentence", len(offenders), 0, "", False)]


def _death(child: subprocess.Popen[str], seeds: IO[str]) -> dict[str, str] | None:
    """An offender for a process that did not survive its last seed; ``seeds`` is what it wrote on stderr."""
    if child.returncode == 0:
        return None
    seeds.seek(0)
    numbers = [word for word in seeds.read().split() if word.isdigit()]
    return {"seed": numbers[-1] if numbers else "?", "said": f"the process died with status {child.returncode}"}


def _command(path: Path) -> list[str]:
    return [sys.executable, "-m", "lightning_perfwatch", "analyze", str(path), "--format", "json"]


def _row(megabytes: float, runs: Sequence[Run]) -> tuple[str, ...]:
    wall_s, cpu_s, peak_bytes = _wall_s(runs), _cpu_s(runs), max(run.peak_bytes for run in runs)
    return (
        f"{megabytes:.1f}",
        f"{wall_s:.2f}",
        f"{cpu_s:.2f}",
        f"{megabytes / wall_s:.0f}",
        f"{megabytes / cpu_s:.0f}",
        f"{peak_bytes / _MIB:.0f}",
        f"{peak_bytes / 1e6 / megabytes:.2f}",
    )


def _wall_s(runs: Iterable[Run]) -> float:
    return median(run.wall_s for run in runs)


def _cpu_s(runs: Iterable[Run]) -> float:
    return median(run.cpu_s for run in runs)


def _of_size(peak_bytes: dict[str, int], megabytes: dict[str, float], name: str) -> float:
    return peak_bytes[name] / 1e6 / megabytes[name]


def _is_there(python: str, tool: str) -> bool:
    """Whether ``python`` can import the tool; if not, that is said."""
    done = _run_tool(python, tool, Path("absent"), "--only-import")
    if done.returncode == _NO_TOOL:
        say(f"  {tool} skipped: {json.loads(done.stdout.splitlines()[-1])} in {python}")
    return done.returncode != _NO_TOOL


def _tool_s(python: str, tool: str, trace: Path, *arguments: str) -> float:
    done = _run_tool(python, tool, trace, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"{tool} ended with status {done.returncode}: {done.stderr[-300:].strip()}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def _run_tool(python: str, tool: str, trace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if tool == "perfwatch" else None
    command = [python, str(_TOOLS), tool, str(trace), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


SECTIONS: dict[str, Callable[[Settings], list[Figure]]] = {
    "reading": reading,
    "start-up": start_up,
    "two-cores": two_cores,
    "other-tools": other_tools,
    "fuzz": fuzz,
}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.trace_reading", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that everything runs")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="interpreter with the other tools")
    parser.add_argument("--mutations", type=int, metavar="N", help="damaged traces to try (default: 10000, quick 300)")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section only (repeatable)")
    parser.add_argument("--folder", type=Path, help="where to make the inputs, 4 GB (default: the temporary folder)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections; 1 if a target is missed (with ``--quick``: if the fuzz test found something)."""
    asked = _arguments(argv)
    num_mutations = asked.mutations or (300 if asked.quick else 10_000)
    missed = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        settings = Settings(QUICK if asked.quick else Sizes(), asked.python, Path(folder), num_mutations)
        for name in asked.only or SECTIONS:
            start_s = time.perf_counter()
            say(f"\n{name}")
            figures = SECTIONS[name](settings)
            say_figures(figures)
            say(f"  ({time.perf_counter() - start_s:.0f} s)")
            missed += [figure for figure in figures if not figure.is_reached and (name == "fuzz" or not asked.quick)]
    judged = "of the fuzz test (the sizes of --quick judge nothing else)" if asked.quick else "in all"
    say(f"\ntargets missed {judged}: {len(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
