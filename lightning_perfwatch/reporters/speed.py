"""How fast the run was, in words: rates with their spread, amounts, and the wall clock.

Owns the wording of throughput. Knows nothing of findings and of layout.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightning_perfwatch.counts import Counted, Spread, Totals
from lightning_perfwatch.reporters.wording import NOT_MEASURED, amount, duration, label, percent


def rate(value: float | None, own: float | None, spread: Spread | None) -> str:
    """A rate of all ranks with its 95 % interval, and this rank's own part where that is another figure."""
    if value is None:
        return NOT_MEASURED if own is None else f"{NOT_MEASURED} on all ranks; {amount(own)} on this one"
    said = []
    if spread is not None:
        median = "" if spread.low <= value <= spread.high else f"median {amount(spread.median)}, "
        said.append(f"{median}95 % {amount(spread.low)} to {amount(spread.high)}")
    if own is not None and amount(own) != amount(value):
        said.append(f"this rank {amount(own)}")
    return f"{amount(value)} ({'; '.join(said)})" if said else amount(value)


def nonpadding_name(counted: Counted | None) -> str:
    """What is counted where labels tell: they leave out a masked prompt too."""
    by_labels = counted is not None and counted.nonpadding_by == "labels"
    return "labelled tokens/s" if by_labels else "non-padding tokens/s"


def trained_on(counted: Counted | None) -> Iterable[tuple[str, str]]:
    """The amounts of this fit, and of all sessions where a checkpoint tells of others."""
    if counted is None or not counted.num_batches:
        return
    session = Totals(counted.num_batches, counted.num_optimizer_steps, counted.samples, counted.tokens)
    yield ("trained on", _amounts(session))
    in_all = counted.in_all
    if in_all is not None and in_all.num_batches not in (None, counted.num_batches):
        yield ("in all sessions", _amounts(in_all))


def _amounts(totals: Totals) -> str:
    named = ((totals.tokens, "tokens"), (totals.samples, "samples"), (totals.num_batches, "batches"))
    return ", ".join(f"{amount(count)} {name}" for count, name in named if count is not None)


def outside(wall_s: dict[str, float] | None) -> str | None:
    """What of the wall clock was no training step, in one line; None where all was."""
    wall_s = wall_s or {}
    others = {name: value for name, value in wall_s.items() if name != "training" and value > 0}
    total_s = sum(wall_s.values())
    if not others or total_s <= 0:
        return None
    parts = ", ".join(f"{label(name)} {duration(value)}" for name, value in others.items())
    return f"{parts} (goodput {percent(wall_s.get('training', 0.0) / total_s)} of {duration(total_s)} wall clock)"
