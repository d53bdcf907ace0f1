"""Which findings of two reports are the same, and what became of each.

Owns the matching, by rule and place. Knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from lightning_perfwatch.finding import Finding
from lightning_perfwatch.report import Report

LEAST_MOVE_SHARE = 0.02
"""A share that changed by less than two points of a hundred did not move."""


@dataclass(frozen=True)
class FindingChange:
    """One finding before and after; None where it is not.

    ``kind`` is ``gone``, ``new``, ``moved`` (its share, its severity or its place in the order changed), ``kept`` or,
    where the rule could not judge one of the runs for the ``reason`` given, ``not_judged``. ``rank_before`` and
    ``rank_after`` are its place in the list, from 1.
    """

    kind: str
    before: Finding | None = None
    after: Finding | None = None
    rank_before: int | None = None
    rank_after: int | None = None
    reason: str | None = None

    @property
    def finding(self) -> Finding:
        """The newer of the two."""
        found = self.after or self.before
        assert found is not None
        return found


_Ranked = tuple[int, Finding]


def finding_changes(before: Report, after: Report) -> tuple[FindingChange, ...]:
    """What became of every finding: gone first, then new, moved, kept and not judged.

    Lines move when code is edited. So what is not found at the very same place is looked for in the same file, module
    and operator, and at last anywhere if each report has one finding of the rule left.
    """
    pairs, first, second = _pairs(before.findings, after.findings)
    found = [_matched(one, other) for one, other in pairs]
    found += [_lost("gone", rank, one, after.skipped) for rank, one in first]
    found += [_lost("new", rank, one, before.skipped) for rank, one in second]
    order = ("gone", "new", "moved", "kept", "not_judged")
    return tuple(sorted(found, key=lambda one: (order.index(one.kind), one.rank_after or one.rank_before or 0)))


def _pairs(
    before: Sequence[Finding], after: Sequence[Finding]
) -> tuple[list[tuple[_Ranked, _Ranked]], list[_Ranked], list[_Ranked]]:
    first, second = list(enumerate(before, start=1)), list(enumerate(after, start=1))
    pairs: list[tuple[_Ranked, _Ranked]] = []
    for key in _KEYS:
        for one in list(first):
            alike = [other for other in second if key(other[1]) == key(one[1])]
            rivals = [rival for rival in first if key(rival[1]) == key(one[1])]
            if alike and (key is _same_place or len(alike) == len(rivals) == 1):
                pairs.append((one, alike[0]))
                first.remove(one)
                second.remove(alike[0])
    return pairs, first, second


def _same_place(finding: Finding) -> Hashable:
    return finding.rule, str(finding.where), finding.where.rank


def _same_surroundings(finding: Finding) -> Hashable:
    where = finding.where
    return finding.rule, where.file, where.module, where.op, where.rank


def _same_rule(finding: Finding) -> Hashable:
    return finding.rule


_KEYS: tuple[Callable[[Finding], Hashable], ...] = (_same_place, _same_surroundings, _same_rule)


def _matched(one: _Ranked, other: _Ranked) -> FindingChange:
    (rank_before, before), (rank_after, after) = one, other
    moved = (
        before.severity is not after.severity
        or (before.share is None) != (after.share is None)
        or abs((before.share or 0.0) - (after.share or 0.0)) >= LEAST_MOVE_SHARE
        or rank_before != rank_after
    )
    return FindingChange("moved" if moved else "kept", before, after, rank_before, rank_after)


def _lost(kind: str, rank: int, finding: Finding, skipped: dict[str, str]) -> FindingChange:
    """A finding of one report alone; what the other could not judge is neither gone nor new."""
    reason = skipped.get(finding.rule)
    told = kind if reason is None else "not_judged"
    if kind == "gone":
        return FindingChange(told, before=finding, rank_before=rank, reason=reason)
    return FindingChange(told, after=finding, rank_after=rank, reason=reason)
