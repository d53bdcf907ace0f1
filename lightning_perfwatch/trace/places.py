"""Where in the user's code operators were called, from a trace's Python frames; knows paths and lines only."""

from __future__ import annotations

import re

import numpy as np

from lightning_perfwatch.trace.columns import Bools
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.trace import Trace

_FRAME = re.compile(r"(?P<file>[^<].*\.py)\((?P<line>\d+)\): ")
_NOT_THE_USERS = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|torch|lightning\w*)[/\\]"
)


def user_place(trace: Trace, rows: Bools) -> tuple[str, int] | None:
    """File and line of the user's function that most of these operators were called in.

    None where the trace has no Python frames, or none of the user's. The line is that of the function's beginning.
    """
    if not len(trace.python_frames) or not rows.any():
        return None
    places = [_place(name) for name in trace.names]
    known = np.fromiter((place is not None for place in places), np.bool_, len(places))
    frames = trace.python_frames.take(known[trace.python_frames.name])
    around = enclosing(frames, trace.ops.tid[rows], trace.ops.start_us[rows])
    around = around[around >= 0]
    if not len(around):
        return None
    return places[int(np.bincount(frames.name[around]).argmax())]


def _place(name: str) -> tuple[str, int] | None:
    frame = _FRAME.match(name)
    if frame is None or _NOT_THE_USERS.search(frame["file"]):
        return None
    return frame["file"], int(frame["line"])
