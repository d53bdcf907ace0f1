"""Evidence in, ranked findings out: runs the rules and says which could not judge and why.

Owns the order of findings, what becomes of those that overlap, and the guard around each rule. Never prints, logs or
reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules import Rule, all_rules

_NOT_ASKED = "the settings leave it out"


@dataclass(frozen=True)
class Diagnosis:
    """The verdict: findings by severity and then by share, and why which rules could not judge."""

    findings: tuple[Finding, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)


def diagnose(evidence: Evidence, rules: Iterable[Rule] | None = None, ignore: Iterable[str] = ()) -> Diagnosis:
    """Ask ``rules`` (all of them with their default thresholds if None) about the evidence.

    Rules whose id is in ``ignore`` are not asked; they and those that ``rules`` leaves out count as skipped. A rule
    that raises is reported as skipped with its error and never hides the others.
    """
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    ignored = frozenset(ignore)
    asked = [kind() for kind in all_rules().values()] if rules is None else list(rules)
    skipped.update({rule_id: _NOT_ASKED for rule_id in sorted(all_rules().keys() - {rule.id() for rule in asked})})
    for rule in asked:
        if rule.id() in ignored:
            skipped[rule.id()] = _NOT_ASKED
            continue
        try:
            reason = rule.skip_reason(evidence)
            if reason is None:
                findings.extend(list(rule.check(evidence)))  # all of them or, if it raises, none
            else:
                skipped[rule.id()] = reason
        except Exception as error:  # noqa: BLE001 - a broken rule must not hide what the others found
            skipped[rule.id()] = f"the rule failed with {type(error).__name__}: {error}"
    return Diagnosis(settle(findings, asked), skipped)


def settle(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """What stays of ``findings``, in order: each once, no symptom beside its cause, no second counted twice.

    Shares are of the same step (or of the same wall clock), so they can't add up to more than all of it: where they
    do, they overlap, and the less weighty finding has what the others leave.
    """
    causes = {rule.id(): rule.symptom_of for rule in rules}
    ordered = sorted(_distinct(findings), key=_weight)
    kept = [finding for finding in ordered if not _is_explained(finding, ordered, causes)]
    return tuple(sorted(_counted_once(kept), key=_weight))


def of_other_ranks(
    told: tuple[Finding, ...], others: Mapping[int, Iterable[Finding]], rules: Iterable[Rule]
) -> tuple[Finding, ...]:
    """``told`` and, in order, what is worse on other ranks: of each rule the rank where it weighs most.

    ``others`` are the findings of each rank alone. A rule that says as much of the rank in detail is not repeated,
    nor is the symptom of a finding in ``told``, nor what makes a rank the one that the others wait for.
    """
    causes = {rule.id(): rule.symptom_of for rule in rules}
    known = {finding.rule: finding.severity.rank for finding in reversed(told)}
    worst: dict[str, Finding] = {}
    for rank, findings in others.items():
        for finding in sorted(findings, key=_weight):
            same = [one for one in told if one.where.rank == rank and (finding.share or 0.0) >= _half(one)]
            is_news = finding.severity.rank > max(known.get(finding.rule, -1), Severity.INFO.rank)
            if same or not is_news or _is_explained(finding, told, causes):
                continue
            before = worst.get(finding.rule)
            if before is None or _weight(finding) < _weight(before):
                worst[finding.rule] = replace(finding, where=replace(finding.where, rank=rank))
    return tuple(sorted((*told, *worst.values()), key=_weight))


_EXPLAINED = 0.5
"""A symptom goes where its causes cost at least this part of it; what they leave of it is hardly worth a word."""
_LEAST_LEFT = 0.05
"""Of an overlapping finding: under this share it is no more than information, as everywhere."""


def _is_explained(finding: Finding, findings: Iterable[Finding], causes: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether ``finding`` is only a symptom of others; information explains nothing that is worse than itself."""
    explaining = [
        other
        for other in findings
        if other.rule in causes.get(finding.rule, ()) and other.severity.rank >= min(finding.severity.rank, 1)
    ]
    if finding.share is None:
        return bool(explaining)
    return bool(explaining) and sum(other.share or 0.0 for other in explaining) >= _EXPLAINED * finding.share


def _half(finding: Finding) -> float:
    return _EXPLAINED * (finding.share or 0.0)


def _counted_once(findings: Iterable[Finding]) -> Iterable[Finding]:
    left = {"step": 1.0, "run": 1.0}
    for finding in findings:
        share = finding.share
        if share is not None and share > left[finding.share_of]:
            share = left[finding.share_of]
            severity = finding.severity if share >= _LEAST_LEFT else Severity.INFO
            finding = replace(finding, share=share, severity=severity)  # noqa: PLW2901
        left[finding.share_of] = max(0.0, left[finding.share_of] - (share or 0.0))
        yield finding


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    kept: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.rule, str(finding.where) or finding.summary)
        known = kept.get(key)
        if known is None or _weight(finding) < _weight(known):
            kept[key] = finding
    return list(kept.values())


def _weight(finding: Finding) -> tuple[int, float, str]:
    return (-finding.severity.rank, -(finding.share or 0.0), finding.rule)
