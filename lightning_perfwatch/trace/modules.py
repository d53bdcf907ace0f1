"""Calls of `nn.Module`s in a trace with Python frames (`with_stack`): their hierarchy; knows frames only."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import Ints, Spans
from lightning_perfwatch.trace.nesting import parents

PREFIX = "nn.Module: "


@dataclass(frozen=True, eq=False)
class Modules:
    """One row per call: `parent` is the row of the call around it on its thread, or -1.

    `path` is an id into `paths`: names like "Net_0/Linear_1", classes with torch's numbers for their instances.
    """

    calls: Spans
    parent: Ints
    path: Ints
    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.calls)


def find_modules(frames: Spans, names: tuple[str, ...]) -> Modules:
    """The calls of modules among these frames, by thread and time.

    Their nesting is that of time on each thread, so a module that another one calls directly lies in it,
    whatever Python functions lie between.
    """
    named = np.fromiter((name.startswith(PREFIX) for name in names), np.bool_, len(names))
    calls = frames.take(named[frames.name])
    calls = calls.take(np.lexsort((-calls.dur_us, calls.start_us, calls.tid)))
    parent = parents(calls.tid, calls.start_us, calls.end_us)
    path, paths = _paths(calls, parent, names)
    return Modules(calls, parent, path, paths)


def _paths(calls: Spans, parent: Ints, names: tuple[str, ...]) -> tuple[Ints, tuple[str, ...]]:
    """Numbers the paths, one level of the hierarchy after the other."""
    path: Ints = np.full(len(calls), -1, np.int64)
    paths: list[str] = []
    rows = np.flatnonzero(parent < 0)
    while len(rows):
        # path[-1] may be known already, so the outermost are told apart by their parent.
        above = np.where(parent[rows] >= 0, path[parent[rows]], -1)
        found, number = np.unique(np.column_stack((above, calls.name[rows])), axis=0, return_inverse=True)
        path[rows] = len(paths) + number.ravel()
        for outer, name in found.tolist():
            own = names[name].removeprefix(PREFIX)
            paths.append(f"{paths[outer]}/{own}" if outer >= 0 else own)
        known = path >= 0
        rows = np.flatnonzero(~known & (parent >= 0) & known[parent])
    return path, tuple(paths)
