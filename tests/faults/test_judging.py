"""A verdict says what was found, where it stood and what was wrong; a score counts all of it."""

from typing import Any

import pytest

from tests.faults.judging import Verdict, failed, figures, judge


def finding(rule: str, severity: str = "warning") -> dict[str, Any]:
    return {"rule": rule, "severity": severity, "share": 0.2}


def values(*verdicts: Verdict) -> dict[str, float]:
    return {figure.name.split(":")[0]: figure.value for figure in figures(verdicts)}


def test_a_fault_at_the_top_is_found_first() -> None:
    verdict = judge("run", [finding("host-sync"), finding("gc-pause")], "host-sync", ("gc-pause",))
    assert (verdict.rank, verdict.num_true, verdict.false_alarms) == (1, 2, ())


def test_a_fault_below_a_false_alarm_is_found_second() -> None:
    verdict = judge("run", [finding("gc-pause", "critical"), finding("host-sync")], "host-sync")
    assert (verdict.rank, verdict.num_true, verdict.false_alarms) == (2, 1, ("gc-pause",))


def test_information_is_found_and_is_no_alarm() -> None:
    verdict = judge("run", [finding("full-precision-matmul", "info"), finding("x", "info")], "full-precision-matmul")
    assert (verdict.rank, verdict.num_true, verdict.false_alarms) == (1, 0, ())


def test_a_fault_that_is_not_there_is_missed() -> None:
    assert judge("run", [finding("gc-pause")], "host-sync").rank is None


def test_every_alarm_of_a_healthy_run_is_false() -> None:
    assert judge("run", [finding("gc-pause"), finding("x", "info")], None).false_alarms == ("gc-pause",)


def test_the_score_counts_all_runs() -> None:
    scores = values(
        judge("a", [finding("x")], "x"),
        judge("b", [finding("y"), finding("x")], "x"),
        judge("c", [], "x"),
        judge("d", [finding("x")], None),
        judge("e", [], None),
    )
    assert scores["recall"] == pytest.approx(2 / 3)
    assert scores["first in the list"] == pytest.approx(1 / 3)
    assert scores["precision"] == pytest.approx(2 / 4)
    assert scores["alarms in 2 healthy runs"] == 1


def test_a_run_without_a_report_is_a_missed_fault_and_a_missed_target() -> None:
    scores = figures([judge("a", [finding("x")], "x"), failed("b", "x", "")])
    by_name = {figure.name.split(":")[0]: figure for figure in scores}
    assert by_name["recall"].value == 0.5
    assert not by_name["runs without a report"].is_reached
