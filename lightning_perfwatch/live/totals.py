"""What a training has counted over all its sessions, which a checkpoint carries from one to the next.

Owns the form in the checkpoint. Rates are never taken from here: they belong to one session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from typing import Any

from lightning_perfwatch.counts import Counted, Totals

CHECKPOINT_KEY = "lightning_perfwatch"
"""The key of a checkpoint under which the totals lie.

Not in the callback's ``state_dict``: Lightning refuses two callbacks of one kind where that is overridden, and warns
when a run is resumed without the callback.
"""

_NOTHING = Totals(0, 0, 0, 0, 0)
_UNKNOWN = Totals(None, None, None, None, None)


class RunTotals:
    """The totals of this process over the sessions that checkpoints join.

    A checkpoint that is saved at the end of a batch holds that batch. What was trained on after the last checkpoint
    and lost is trained on again, and counts once. A checkpoint is written by one rank and read by all, so only that
    rank knows its totals after a resumption.
    """

    def __init__(self) -> None:
        self._before = _NOTHING
        self._in_all = _NOTHING

    def begin(self, *, is_resumed: bool) -> None:
        """A session begins; it is a new training unless ``is_resumed``."""
        self._before = self._in_all if is_resumed else _NOTHING
        self._in_all = self._before

    def add(self, counted: Counted) -> Totals:
        """What was known when the session began and all that it has ``counted`` until now."""
        session = [getattr(counted, field.name) for field in fields(Totals)]
        if counted.num_batches == 0:
            session = [0] * len(session)
        pairs = zip(astuple(self._before), session, strict=True)
        self._in_all = Totals(*(None if before is None or now is None else before + now for before, now in pairs))
        return self._in_all

    def lose(self) -> None:
        """Steps go by from here on that nobody counts."""
        self._before = self._in_all = _UNKNOWN

    def save(self, checkpoint: dict[str, Any], rank: int) -> None:
        """Put the totals, as they were last told, into ``checkpoint``."""
        checkpoint[CHECKPOINT_KEY] = {"rank": rank, **asdict(self._in_all)}

    def load(self, checkpoint: Mapping[str, Any], rank: int) -> None:
        """Take the totals from ``checkpoint``; unknown where it holds none, or another rank's."""
        stored = checkpoint.get(CHECKPOINT_KEY)
        self._in_all = _UNKNOWN
        if isinstance(stored, Mapping) and stored.get("rank") == rank:
            self._in_all = Totals(**{field.name: _number(stored.get(field.name)) for field in fields(Totals)})


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
