"""Where in the Python code host events happened, as far as frames (`with_stack`) or annotations tell.

Knows how torch writes a frame's name; no rule and no device.
"""

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from lightning_perfwatch.trace.columns import Spans
from lightning_perfwatch.trace.intervals import Floats
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.trace import Trace

_FRAME = re.compile(r"(?P<file>.+\.py)\((?P<line>\d+)\): (?P<function>.+)")
# What torch leaves of the paths of installed packages and of the standard library: "torch/nn/modules/module.py".
_NOT_THE_USERS = re.compile(
    r"(?:.*(?:site|dist)-packages/|.*/lib/python3[^/]*/|<|)"
    r"(?:torch|lightning|lightning_fabric|pytorch_lightning|torchmetrics|numpy|threading|multiprocessing|contextlib"
    r"|functools|typing|selectors|queue|socket|importlib|tqdm|rich)(?:/|\.py)"
    r"|.*(?:site|dist)-packages/|.*/lib/python3|<"
)


class CodePlace(NamedTuple):
    """A function in the user's code: torch names the line on which it begins."""

    file: str
    line: int
    function: str


def code_place(trace: Trace, spans: Spans) -> CodePlace | None:
    """The innermost function of the user's that most of these host events ran in; None without Python frames."""
    frames = trace.python_frames
    known = np.array([_users_place(name) is not None for name in trace.names], np.bool_)
    theirs = frames.take(known[frames.name])
    rows = enclosing(theirs, spans.tid, spans.start_us)
    rows = rows[rows >= 0]
    if len(rows) == 0:
        return None
    return _users_place(trace.names[_most_frequent(theirs.name[rows].tolist())])


def annotation_at(trace: Trace, times_us: Floats) -> str | None:
    """The label, other than a step's, that most often is the innermost around these times of the steps' thread."""
    is_step = trace.named(trace.annotations, "ProfilerStep#")
    labels = trace.annotations.take(~is_step & np.isin(trace.annotations.tid, trace.steps.tid))
    if len(trace.steps) == 0 or len(times_us) == 0:
        return None
    rows = enclosing(labels, np.full(len(times_us), trace.steps.tid[0]), times_us)
    rows = rows[rows >= 0]
    return trace.names[_most_frequent(labels.name[rows].tolist())] if len(rows) else None


def _users_place(name: str) -> CodePlace | None:
    found = _FRAME.fullmatch(name)
    if found is None or _NOT_THE_USERS.match(name):
        return None
    return CodePlace(found["file"], int(found["line"]), found["function"])


def _most_frequent(ids: list[int]) -> int:
    return Counter(ids).most_common(1)[0][0]
