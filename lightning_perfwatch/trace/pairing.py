"""Spans from pairs of begin and end events, as other writers than Kineto use them; knows phases and lanes only."""

from collections import defaultdict

from lightning_perfwatch.trace.event import Event


class Pairing:
    """Pairs each end ("E") with the last open begin ("B") of its lane, in the order of the file.

    The format demands that order: within one thread begin and end events stand in order of time. What is open
    is kept, so memory is bounded by the depth of the nesting; `num_stray` counts ends without a begin.
    """

    def __init__(self) -> None:
        self._open: defaultdict[tuple[object, object], list[Event]] = defaultdict(list)
        self.num_stray = 0

    @property
    def num_unpaired(self) -> int:
        """Begins and ends that have found no partner so far."""
        return self.num_stray + sum(map(len, self._open.values()))

    def spans(self, events: list[Event]) -> list[Event]:
        """The spans that end in this list: their begin events, with a duration and the phase "X"."""
        found = []
        for event in events:
            if event.ph == "B":
                self._open[event.pid, event.tid].append(event)
            elif event.ph == "E":
                begun = self._open[event.pid, event.tid]
                if not begun:
                    self.num_stray += 1
                    continue
                span = begun.pop()
                span.ph = "X"
                span.dur = None if event.ts is None or span.ts is None else event.ts - span.ts
                found.append(span)
        return found
