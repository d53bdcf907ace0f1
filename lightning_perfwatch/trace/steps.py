"""Finds the steps of a trace: annotated by the profiler, or else between the ends of optimizer steps."""

import re

import numpy as np

from lightning_perfwatch.trace.columns import Bools, Ints, Operators, Spans, Steps
from lightning_perfwatch.trace.intervals import Floats

_PROFILER = re.compile(r"ProfilerStep#(\d{1,18})")
_OPTIMIZER = "Optimizer.step#"
# The profiler opens one more step when it is stopped; with less than this part of the others' operators it is
# the remainder after the last whole step (torch writes it as a step of its own).
_MOST_NAMED = 5
_REMAINDER_SHARE = 0.05


def annotated_steps(annotations: Spans, names: tuple[str, ...]) -> Steps:
    """The `ProfilerStep#N` annotations, one row per number: of several (one per thread) the longest."""
    matches = [_PROFILER.fullmatch(name) for name in names]
    number_of = np.array([int(match[1]) if match else -1 for match in matches], np.int64)
    rows = np.flatnonzero(number_of[annotations.name] >= 0) if len(names) else np.empty(0, np.int64)
    numbers = number_of[annotations.name[rows]]
    longest_first = np.lexsort((-annotations.dur_us[rows], numbers))
    _, first = np.unique(numbers[longest_first], return_index=True)
    rows = np.sort(rows[longest_first[first]])
    found = annotations.take(rows)
    return Steps(number_of[found.name], found.tid, found.start_us, found.end_us)


def host_steps(annotations: Spans, names: tuple[str, ...], ops: Operators, calls_us: Floats) -> tuple[Steps, list[str]]:
    """The complete steps of the host, and a sentence about those that are not."""
    steps = annotated_steps(annotations, names)
    if len(steps):
        return _complete(steps, ops, calls_us)
    return _between_optimizer_steps(annotations, names), []


def _between_optimizer_steps(annotations: Spans, names: tuple[str, ...]) -> Steps:
    """A step ends where an optimizer step ends. What lies before the first end began at an unknown time.

    Of several optimizers (a GAN's, or a wrapper around another) the one that steps most often counts, of
    equals the one that takes longest, so that what it wraps lies inside.
    """
    labels = [row for row, name in enumerate(names) if name.startswith(_OPTIMIZER)]
    counts = np.bincount(annotations.name, minlength=len(names))[labels]
    times_us = np.bincount(annotations.name, annotations.dur_us, len(names))[labels]
    best = max(range(len(labels)), key=lambda at: (counts[at], times_us[at]), default=None)
    chosen = annotations.take(annotations.name == (-1 if best is None else labels[best]))
    order: Ints = np.argsort(chosen.end_us, kind="stable")
    ends, tid = chosen.end_us[order], chosen.tid[order]
    source = "optimizer" if len(ends) > 1 else "profiler"
    return Steps(np.arange(1, max(len(ends), 1)), tid[1:], ends[:-1], ends[1:], source)


def _complete(steps: Steps, ops: Operators, calls_us: Floats) -> tuple[Steps, list[str]]:
    """Only the steps in which the profiler saw work, and a sentence about the others.

    A profiler that is stopped has just begun one more step; torch writes it like the others, a few
    microseconds to a whole epoch's end long, with no or hardly any operator in it.
    """
    times = ops.start_us if len(ops) else calls_us
    if len(times) == 0 or len(steps) == 0:
        return steps, []
    at = steps.index_of(times)
    work = np.bincount(at[at >= 0], minlength=len(steps))
    whole: Bools = work > 0
    if len(steps) > 1 and whole[-1]:
        whole[-1] = work[-1] >= _REMAINDER_SHARE * float(np.median(work[:-1]))
    if whole.all():
        return steps, []
    gone = steps.numbers[~whole].tolist()
    named = ", ".join(f"#{number}" for number in gone[:_MOST_NAMED])
    if len(gone) == 1:
        return steps.take(whole), [
            f"Step {named} holds hardly any operator (the profiler was stopped in it) and was left out."
        ]
    more = f" and {len(gone) - _MOST_NAMED:,} more" if len(gone) > _MOST_NAMED else ""
    return steps.take(whole), [f"Steps {named}{more} hold hardly any operator and were left out."]
