from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lightning_perfwatch.comparison import Pair, compare
from lightning_perfwatch.comparison.comparison import to_document
from lightning_perfwatch.report import Report
from lightning_perfwatch.trace import HostStep
from tests.comparison.factories import run
from tests.reporters.factories import REPORTS, op_total, phases, report


def test_phases_stand_side_by_side_with_their_shares() -> None:
    before = run(phases=phases(data_wait=10.0, forward=10.0))
    after = run(phases=phases(forward=10.0))

    assert compare(before, after).phases == (
        Pair("data_wait", 0.01, None, 0.5, None),
        Pair("forward", 0.01, 0.01, 0.5, 1.0),
    )


def host_steps(num: int) -> tuple[HostStep, ...]:
    return tuple(HostStep(number, 0.1 * number, 0.1, 0.0, 0.1, 0.0, 0.0, None) for number in range(num))


def test_operations_are_told_per_step_those_that_changed_most_first() -> None:
    before = run(host_steps=host_steps(5), top_ops=(op_total(name="mm", self_s=0.5), op_total(name="gelu", self_s=0.1)))
    after = run(host_steps=host_steps(2), top_ops=(op_total(name="mm", self_s=0.2), op_total(name="norm", self_s=0.1)))
    found = {pair.name: (pair.before, pair.after) for pair in compare(before, after).operations}

    assert list(found) == ["norm", "gelu", "mm"]
    assert found == {"mm": (0.1, 0.1), "gelu": (0.02, None), "norm": (None, 0.05)}


def test_operations_without_steps_have_their_shares_only() -> None:
    (pair,) = compare(run(top_ops=(op_total(),)), run(top_ops=(op_total(share=0.2),))).operations

    assert (pair.before, pair.after, pair.share_before, pair.share_after) == (None, None, 0.41, 0.2)


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_can_be_compared_with_a_run_or_is_refused_in_a_sentence(name: str) -> None:
    for pair in ((REPORTS[name], run()), (run(), REPORTS[name])):
        try:
            document = json.loads(to_document(compare(*pair)))
        except ValueError as error:
            assert "holds no measurement" in str(error)
        else:
            assert document["schema_version"] == 1


def test_a_report_that_holds_nothing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="/logs/a holds no measurement to compare"):
        compare(Report(directory="/logs/a"), run())
    with pytest.raises(ValueError, match="the report after holds no measurement"):
        compare(run(), Report())


def test_a_report_that_was_analysed_again_is_the_same_run() -> None:
    assert compare(report(), replace(report(), findings=(), directory="/moved", overhead=None)).is_same_run


def test_two_traces_are_the_same_where_all_that_they_say_is() -> None:
    trace = Report(top_ops=(op_total(),), source="a.json")

    assert compare(trace, replace(trace, source="b.json")).is_same_run
    assert not compare(trace, replace(trace, top_ops=(op_total(self_s=1.0),))).is_same_run
