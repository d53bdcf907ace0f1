"""Evidence in, ranked findings out: runs the rules and says which could not judge and why.

Owns the order of findings and the guard around each rule. Never prints, logs or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding
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
    return Diagnosis(tuple(sorted(_distinct(findings), key=_weight)), skipped)


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
