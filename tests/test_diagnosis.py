from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from lightning_perfwatch.diagnosis import Diagnosis, diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules import Rule
from tests.reporters.factories import finding

LEFT_OUT = "the settings leave it out"


@pytest.fixture(autouse=True)
def no_rules_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules here are all there are."""
    monkeypatch.setattr("lightning_perfwatch.diagnosis.all_rules", dict)


@dataclass(frozen=True)
class Says(Rule):
    """A rule that finds what it is told to find."""

    findings: tuple[Finding, ...] = ()
    name: ClassVar[str] = "says"

    @classmethod
    def id(cls) -> str:
        return cls.name

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return self.findings


class NeedsSteps(Says):
    """A rule that can't judge without steps."""

    name = "needs-steps"
    needs = ("steps",)


class Breaks(Says):
    """A rule with a fault, after its first finding."""

    name = "breaks"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        yield finding(rule="breaks")
        raise KeyError("step_s")


def ids(diagnosis: Diagnosis) -> list[str]:
    return [found.rule for found in diagnosis.findings]


def test_no_rules_find_nothing() -> None:
    assert diagnose(Evidence(), rules=()) == Diagnosis()


def test_a_healthy_run_has_no_findings_and_nothing_skipped() -> None:
    assert diagnose(Evidence(), [Says()]) == Diagnosis()


def test_a_rule_without_its_evidence_is_skipped_with_the_reason() -> None:
    rule = NeedsSteps((finding(),))

    assert diagnose(Evidence(), [rule]).skipped == {"needs-steps": "no steady training step was measured"}
    said = Evidence(missing={"steps": "the run had one step"})
    assert diagnose(said, [rule]) == Diagnosis(skipped={"needs-steps": "the run had one step"})


def test_findings_are_ordered_by_severity_then_share_then_name() -> None:
    found = (
        finding(rule="info", severity=Severity.INFO, share=0.9),
        finding(rule="unknown-share", share=None),
        finding(rule="small", share=0.1),
        finding(rule="same-b", share=0.3),
        finding(rule="same-a", share=0.3),
        finding(rule="critical", severity=Severity.CRITICAL, share=0.2),
    )

    diagnosis = diagnose(Evidence(), [Says(found)])

    assert ids(diagnosis) == ["critical", "same-a", "same-b", "small", "unknown-share", "info"]


def test_of_one_rule_at_one_place_the_weightiest_finding_stays() -> None:
    light, heavy = finding(share=0.1), finding(share=0.4, summary="Again.")

    assert diagnose(Evidence(), [Says((light, heavy, light))]).findings == (heavy,)


def test_findings_at_different_places_or_of_different_rules_all_stay() -> None:
    found = (
        finding(),
        finding(where=Where(file="other.py", line=1)),
        finding(rule="other"),
        finding(where=Where(), summary="One."),
        finding(where=Where(), summary="Two."),
    )

    assert len(diagnose(Evidence(), [Says(found)]).findings) == len(found)


def test_a_rule_that_raises_is_skipped_with_its_error_and_hides_no_other() -> None:
    diagnosis = diagnose(Evidence(), [Breaks(), Says((finding(rule="says"),))])

    assert ids(diagnosis) == ["says"], "half of what a broken rule says is not to be trusted"
    assert diagnosis.skipped == {"breaks": "the rule failed with KeyError: 'step_s'"}


def test_an_ignored_rule_is_not_asked_and_counts_as_skipped() -> None:
    ignored = diagnose(Evidence(), [Breaks(), NeedsSteps()], ignore=["breaks", "needs-steps"])
    assert ignored == Diagnosis(skipped={"breaks": LEFT_OUT, "needs-steps": LEFT_OUT})


def test_rules_that_are_not_chosen_count_as_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_perfwatch.diagnosis.all_rules", lambda: {"says": Says, "breaks": Breaks})
    assert diagnose(Evidence(), [Says()]) == Diagnosis(skipped={"breaks": LEFT_OUT})
