"""Runs of child processes, measured, and figures held against their targets.

Owns what a run costs and how figures are printed. Knows nothing of traces. Imports nothing large: a child's peak
memory counts from its parent's size.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
_SAMPLE_S = 0.005
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Run:
    """What one child process cost: itself and the children that it waited for.

    ``peak_bytes`` is the most that it and its children held together: memory that is shared is counted for each.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Figure:
    """A measured value beside its target; ``unit`` is printed behind both."""

    name: str
    value: float
    target: float
    unit: str
    at_least: bool = True

    @property
    def is_reached(self) -> bool:
        """Whether the value is on the right side of the target."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def measure(command: Sequence[str], core: int | None = None) -> Run:
    """Run ``command`` in the project's folder, on the ``core`` of that number if one is given, output thrown away.

    Raises:
        RuntimeError: it failed; the message ends with its last words.
    """

    def bind() -> None:
        os.sched_setaffinity(0, {core})  # type: ignore[arg-type]

    start_s = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=None if core is None else bind,  # noqa: PLW1509 - it does nothing but one system call
    ) as process:
        assert process.stderr is not None
        family = _Family(process.pid)
        words = process.stderr.read().decode(errors="replace")
        _, wait_status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        family.over.set()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}: {words[-300:].strip()}")
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    peak_bytes = max(usage.ru_maxrss * unit_bytes, family.peak_bytes)
    return Run(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes)


def measure_apart(commands: Sequence[Sequence[str]]) -> float:
    """Seconds until all ``commands`` are done that run at the same time, each on a core of its own."""
    cores = sorted(os.sched_getaffinity(0))[: len(commands)]
    start_s = time.perf_counter()
    with ThreadPoolExecutor(len(commands)) as pool:
        list(pool.map(measure, commands, cores))
    return time.perf_counter() - start_s


class _Family(threading.Thread):
    """Watches the memory of a process and its children until `over` is set; sees nothing where there is no /proc."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.over = threading.Event()
        self.peak_bytes = 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, _resident_bytes(self._pid))


def _resident_bytes(pid: int) -> int:
    """Of a process and its children, together."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
    return own + sum(_resident_bytes(int(child)) for child in children)


def interleaved(
    tasks: Mapping[str, Callable[[], Measured]], num_rounds: int | Mapping[str, int]
) -> dict[str, list[Measured]]:
    """Every task once a round, so that a slow minute of the machine hits all of them; the results by task."""
    rounds = dict.fromkeys(tasks, num_rounds) if isinstance(num_rounds, int) else num_rounds
    results: dict[str, list[Measured]] = {name: [] for name in tasks}
    for number in range(max(rounds.values())):
        for name, task in tasks.items():
            if number < rounds[name]:
                results[name].append(task())
    return results


def median(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(values)


def say(line: str = "") -> None:
    """One line of output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table with columns as wide as their widest cell, numbers to the right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        first, *others = (cell.ljust(width) if not column else cell.rjust(width)
                          for column, (cell, width) in enumerate(zip(line, widths, strict=True)))  # fmt: skip
        say("  " + "  ".join((first, *others)))


def say_figures(figures: Iterable[Figure]) -> None:
    """One line a figure: target, measured value, and whether it is reached."""
    for figure in figures:
        bound = ">=" if figure.at_least else "<="
        verdict = "reached" if figure.is_reached else "MISSED"
        say(f"  {figure.name:<58} {bound} {figure.target:>7.4g} {figure.unit:<5} {figure.value:>8.4g}  {verdict}")
