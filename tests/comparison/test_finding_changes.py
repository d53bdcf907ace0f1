from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.comparison import FindingChange
from lightning_perfwatch.comparison.finding_changes import finding_changes
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.report import Report
from tests.reporters.factories import finding


def at(line: int, **changes: Any) -> Finding:
    return finding(where=Where(file="train.py", line=line), **changes)


def kinds(before: tuple[Finding, ...], after: tuple[Finding, ...], **skipped: str) -> list[str]:
    return [one.kind for one in finding_changes(Report(findings=before), Report(findings=after, skipped=skipped))]


def test_a_finding_that_is_there_no_more_is_gone_and_another_is_new() -> None:
    old, new = finding(rule="host-sync"), finding(rule="gc-pause")

    assert finding_changes(Report(findings=(old,)), Report(findings=(new,))) == (
        FindingChange("gone", before=old, rank_before=1),
        FindingChange("new", after=new, rank_after=1),
    )


def test_what_could_not_be_judged_is_neither_gone_nor_new() -> None:
    """A rule that did not speak because it was skipped has proved nothing."""
    found = Report(findings=(finding(rule="host-sync"),))
    silent = Report(skipped={"host-sync": "no step was audited"})

    for change in (*finding_changes(found, silent), *finding_changes(silent, found)):
        assert (change.kind, change.reason) == ("not_judged", "no step was audited")


def test_the_same_finding_stays_as_it_was() -> None:
    assert kinds((finding(),), (finding(share=0.315),)) == ["kept"]


@pytest.mark.parametrize("changes", [{"share": 0.2}, {"share": None}, {"severity": Severity.CRITICAL}])
def test_a_finding_with_another_share_or_severity_has_moved(changes: dict[str, Any]) -> None:
    assert kinds((finding(),), (finding(**changes),)) == ["moved"]


def test_a_finding_with_another_place_in_the_list_has_moved() -> None:
    first, second = finding(rule="host-sync"), finding(rule="gc-pause")

    assert kinds((first, second), (second,)) == ["gone", "moved"]


def test_a_line_that_was_pushed_down_holds_the_same_finding() -> None:
    assert kinds((at(42),), (at(45),)) == ["kept"]


def test_of_two_findings_in_a_file_each_keeps_its_line() -> None:
    found = finding_changes(
        Report(findings=(at(42, share=0.3), at(50, share=0.2))), Report(findings=(at(50, share=0.2), at(60)))
    )

    assert [(one.kind, one.finding.where.line) for one in found] == [("moved", 50), ("moved", 60)]


def test_two_that_could_both_be_it_are_not_guessed_at() -> None:
    assert kinds((at(1), at(2)), (at(11), at(12))) == ["gone", "gone", "new", "new"]
