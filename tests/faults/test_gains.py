"""A gain is what was promised beside what came."""

from typing import Any

import pytest

from tests.faults.gains import Gain, figures, gain


def report(samples_per_s: float, *shares: float | None) -> dict[str, Any]:
    return {
        "throughput": {"samples_per_s": samples_per_s},
        "findings": [{"rule": "slow-hook", "share": share, "share_is": "upper bound"} for share in shares]
        + [{"rule": "x", "share": 0.9, "share_is": "estimate"}],
        "wall_s": {"training": 10.0, "validation": 30.0, "capture": 1000.0},
        "counted": {"num_batches": 80},
    }


def test_the_promise_follows_from_the_rules_own_shares() -> None:
    one = gain("case", "slow-hook", [report(10, 0.25, 0.25)], [report(19)], outside=False)
    assert one.predicted == pytest.approx(2.0)
    assert one.realised == pytest.approx(1.9)
    assert one.error == pytest.approx(0.1 / 1.9)
    assert not one.is_beyond_bound


def test_a_rule_that_is_silent_or_knows_no_share_promises_nothing() -> None:
    for planted in (report(10), report(10, None)):
        one = gain("case", "slow-hook", [planted], [report(20)], outside=False)
        assert (one.predicted, one.error, one.is_beyond_bound) == (None, None, False)


def test_what_is_lost_outside_of_steps_is_told_by_the_wall_clock() -> None:
    before, after = report(10, 0.75), report(10)
    after["wall_s"]["validation"] = 0.0
    assert gain("case", "slow-hook", [before], [after], outside=True).realised == pytest.approx(4.0)


def test_more_than_was_said_to_be_possible_is_counted() -> None:
    scores = {f.name.split(" by")[0]: f for f in figures([Gain("a", 1.1, 2.0), Gain("b", 2.0, 1.9)], 3)}
    assert scores["gains beyond their bound"].value == 1
    assert not scores["gains beyond their bound"].is_reached
    assert scores["gains predicted and realised"].value == 2
    assert not scores["gains predicted and realised"].is_reached


def test_each_round_is_compared_for_itself() -> None:
    quiet, loaded = (report(10, 0.5), report(20)), (report(1, 0.5), report(2))
    planted, fixed = zip(quiet, loaded, loaded, strict=True)
    assert gain("case", "slow-hook", planted, fixed, outside=False).realised == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("predicted", "kind", "is_beyond"),
    [
        (1.5, "upper bound", True),
        (3.0, "upper bound", False),
        (1.5, "lower bound", False),
        (3.0, "lower bound", True),
        (2.1, "lower bound", False),  # noise
        (1.5, "estimate", False),
        (3.0, "estimate", False),
    ],
)
def test_a_bound_is_held_to_its_side_and_an_estimate_to_none(predicted: float, kind: str, is_beyond: bool) -> None:
    assert Gain("case", predicted, 2.0, kind).is_beyond_bound is is_beyond


def test_a_promise_of_several_kinds_is_an_estimate() -> None:
    mixed = report(10, 0.25, 0.25)
    mixed["findings"][0]["share_is"] = "lower bound"
    assert gain("case", "slow-hook", [mixed], [report(19)], outside=False).predicted_is == "estimate"
    mixed["findings"][1]["share_is"] = "lower bound"
    assert gain("case", "slow-hook", [mixed], [report(19)], outside=False).predicted_is == "lower bound"
