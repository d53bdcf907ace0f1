from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from lightning_perfwatch.diagnosis import Diagnosis, diagnose, of_other_ranks, settle
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules import Rule, all_rules
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


class Symptom(Says):
    """A rule whose bottleneck can be that of another."""

    name = "symptom"
    symptom_of = ("cause",)


def settled(*found: Finding) -> list[tuple[str, float | None, Severity]]:
    rules = [Says(), Symptom()]
    return [(one.rule, one.share, one.severity) for one in settle(found, rules)]


class TestSymptoms:
    def test_a_symptom_is_not_reported_beside_its_cause(self) -> None:
        assert settled(finding(rule="symptom", share=0.4), finding(rule="cause", share=0.3)) == [
            ("cause", 0.3, Severity.WARNING)
        ]

    def test_it_stays_without_its_cause_and_beside_others(self) -> None:
        assert len(settled(finding(rule="symptom", share=0.4))) == 1
        assert len(settled(finding(rule="symptom", share=0.4), finding(rule="other", share=0.3))) == 2

    def test_it_stays_where_the_cause_explains_less_than_half_of_it(self) -> None:
        assert len(settled(finding(rule="symptom", share=0.4), finding(rule="cause", share=0.19))) == 2
        assert len(settled(finding(rule="symptom", share=0.4), finding(rule="cause", share=0.2))) == 1

    def test_information_explains_no_warning(self) -> None:
        cause = finding(rule="cause", share=0.5, severity=Severity.INFO)
        assert len(settled(finding(rule="symptom", share=0.4), cause)) == 2
        assert len(settled(finding(rule="symptom", share=0.4, severity=Severity.INFO), cause)) == 1

    def test_a_symptom_without_a_cost_goes_with_any_cause(self) -> None:
        assert len(settled(finding(rule="symptom", share=None), finding(rule="cause", share=0.06))) == 1


class TestSharesOfOneStep:
    def test_they_never_add_up_to_more_than_the_step(self) -> None:
        found = settled(finding(rule="a", share=0.7), finding(rule="b", share=0.6), finding(rule="c", share=0.5))
        assert [rule for rule, *_ in found] == ["a", "b", "c"]
        assert [share for _, share, _ in found] == pytest.approx([0.7, 0.3, 0.0])

    def test_what_is_left_of_a_finding_keeps_its_severity_only_if_it_is_worth_it(self) -> None:
        found = settled(finding(rule="a", share=0.98), finding(rule="b", share=0.6))
        assert [severity for *_, severity in found] == [Severity.WARNING, Severity.INFO]

    def test_those_of_the_wall_clock_are_another_matter(self) -> None:
        found = settled(finding(rule="a", share=0.7), finding(rule="b", share=0.6, share_of="run"))
        assert [share for _, share, _ in found] == [0.7, 0.6]

    def test_findings_of_unknown_cost_take_nothing(self) -> None:
        assert settled(finding(rule="a", share=None), finding(rule="b", share=1.0))[0][1] == 1.0


def test_a_share_is_of_a_step_or_of_a_run() -> None:
    with pytest.raises(ValueError, match="'step' or 'run', got 'week'"):
        finding(share_of="week")


def test_of_other_ranks_only_what_is_news_is_told() -> None:
    rules = [kind() for kind in all_rules().values()]
    waited_for = finding(rule="straggler-rank", severity=Severity.CRITICAL, share=0.5, where=Where(rank=2))
    told = (waited_for, finding(rule="launch-bound", share=0.1, where=Where()))
    at_worst = finding(rule="device-copy", share=0.3, where=Where(op="copy"))
    others = {
        1: [
            replace(at_worst, share=0.2),
            finding(rule="exposed-communication", share=0.4),  # it waits for rank 2
            finding(rule="launch-bound", share=0.2),  # no worse than that of the first rank
            finding(rule="host-sync", severity=Severity.INFO, share=0.03),
        ],
        2: [finding(rule="slow-hook", severity=Severity.CRITICAL, share=0.5)],  # what the others wait for
        3: [at_worst],
    }
    news = of_other_ranks(told, others, rules)
    assert [(found.rule, found.where.rank) for found in news] == [
        ("straggler-rank", 2), ("device-copy", 3), ("launch-bound", None),
    ]  # fmt: skip
    assert news[1] == replace(at_worst, where=Where(op="copy", rank=3))
