from __future__ import annotations

from dataclasses import replace

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.measurements import RankSummary
from lightning_perfwatch.rules.straggler_rank import StragglerRank
from tests.rules.factories import evidence, rank_summary


def check(*ranks: RankSummary) -> list[Finding]:
    return list(StragglerRank().check(evidence(ranks=ranks)))


def late(excess_s: float, part: str = "data_wait", others: int = 3) -> list[RankSummary]:
    """Rank 2 of some has ``excess_s`` more of its own, for which the others wait."""
    ranks = [rank_summary(number, waiting_s=0.01 + excess_s) for number in range(others + 1)]
    own = {"data_wait": 0.001, "forward": 0.06} | {part: {"data_wait": 0.001, "forward": 0.06}.get(part, 0) + excess_s}
    ranks[min(2, others)] = rank_summary(min(2, others), waiting_s=0.01, **own)
    return ranks


def test_silent_when_all_are_equal() -> None:
    assert check(*(rank_summary(number) for number in range(4))) == []


def test_skipped_with_one_rank_with_ranks_that_tell_nothing_and_with_few_steps() -> None:
    rule = StragglerRank()
    assert rule.skip_reason(Evidence()) == "one process tells nothing of the others"
    assert "fewer than two" in str(rule.skip_reason(evidence(ranks=(rank_summary(0),))))
    assert "fewer than two" in str(
        rule.skip_reason(evidence(ranks=(rank_summary(0), replace(rank_summary(1), own_s=None))))
    )
    few = replace(rank_summary(1), num_steps=2)
    assert "2 steps of a rank are too few" in str(rule.skip_reason(evidence(ranks=(rank_summary(0), few))))


@pytest.mark.parametrize(("excess_s", "fires"), [(0.0099, False), (0.0101, True)])
def test_fires_from_ten_percent_on(excess_s: float, fires: bool) -> None:
    assert bool(check(*late(excess_s))) is fires


@pytest.mark.parametrize("others", [1, 3])
def test_names_the_rank_and_the_part_that_differs(others: int) -> None:
    (finding,) = check(*late(0.03, others=others))
    assert finding.where.rank == min(2, others)
    assert finding.severity is Severity.CRITICAL
    assert finding.share == pytest.approx(0.3)
    assert "needs 30 ms more of its own in each 100 ms step than the others (30 %)" in finding.summary
    assert "it waits longer for its data" in finding.summary
    assert "num_workers" in finding.advice


def test_a_slow_forward_pass_is_one_too() -> None:
    (finding,) = check(*late(0.02, part="forward"))
    assert finding.evidence["part"] == "forward"


def test_others_that_only_wait_in_their_forward_pass_are_not_late() -> None:
    """Buffers are broadcast in it: the ranks whose data came in time wait there for the one whose did not."""
    ranks = [rank_summary(number, waiting_s=0.03, forward=0.09) for number in range(2)]
    assert check(*ranks, rank_summary(2, waiting_s=0.0, data_wait=0.031))[0].where.rank == 2


def test_silent_when_nobody_waits_for_it() -> None:
    assert check(rank_summary(0), rank_summary(1, data_wait=0.05)) == []


def test_a_cause_that_explains_too_little_is_not_named() -> None:
    mixed = rank_summary(1, waiting_s=0.0, forward=0.07, optimizer=0.02, callbacks=0.01)
    (finding,) = check(rank_summary(0), mixed)
    assert "no single part" in finding.summary
    assert finding.evidence["part"] is None
