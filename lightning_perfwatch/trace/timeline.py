"""One step of a trace, event by event, ready to be drawn.

Owns which lanes a timeline has and what is left out of one that is too long. Knows no rule and no drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_EVENTS = 50_000
"""A timeline holds at most these; of more, the shortest are left out."""


@dataclass(frozen=True)
class Lane:
    """The events of one thread, stream, loader or of the step's phases, in columns of one length, by begin.

    ``kind`` is ``phases``, ``loader``, ``thread`` or ``stream``. ``name_ids`` index :attr:`Timeline.names`,
    ``begin_us`` counts from the begin of the step, ``depths`` says how many events of the lane an event lies in.
    ``device`` is the index of the device that a stream is of.
    """

    name: str
    kind: str
    name_ids: tuple[int, ...]
    begin_us: tuple[float, ...]
    duration_us: tuple[float, ...]
    depths: tuple[int, ...]
    device: int | None = None


@dataclass(frozen=True)
class Timeline:
    """What host and devices did while the host was in step ``step`` (its number in the trace; None without steps).

    Events that reach beyond the step's ends are cut there. ``num_left_out`` events were too many and too short.
    """

    step: int | None
    duration_us: float
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    num_left_out: int = 0
