from __future__ import annotations

import pytest

from lightning_perfwatch.comparison import compare
from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters.comparison.outline import Row, faster, outline, percent_change, rate_name
from tests.comparison.factories import counted, run, run_of
from tests.reporters.factories import finding, op_total, run_info

QUIET = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01)


def verdict(before: Report, after: Report) -> str:
    return outline(compare(before, after)).verdict


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.81, "+81 %"), (0.968, "-3.2 %"), (1.0, "0 %"), (1.0002, "0 %"), (2.4, "2.40x"), (12.3, "12x"), (0.4, "-60 %")],
)
def test_a_ratio_is_told_as_a_change(ratio: float, said: str) -> None:
    assert percent_change(ratio) == said


def test_faster_and_slower_are_words() -> None:
    assert (faster(1.12), faster(0.5), faster(3.0)) == ("12 % faster", "50 % slower", "3.00x as fast")
    assert rate_name("nonpadding_tokens_per_s") == "non-padding tokens/s"


def test_every_answer_has_its_sentence() -> None:
    slow = tuple(1.2 * s for s in reversed(QUIET))
    slightly = tuple(1.03 * s for s in reversed(QUIET))

    assert verdict(run(), run()) == "The same run twice: exactly no difference."
    assert verdict(run(*QUIET), run(*slow)).startswith("17 % slower in tokens/s (95 % interval -2")
    assert verdict(run(*slow), run(*QUIET)).startswith("20 % faster in tokens/s (95 % interval +1")
    assert "repeat both before you trust it" in verdict(run(*QUIET), run(*slightly))
    assert verdict(run(*QUIET), run(*reversed(QUIET[:7]), 1.012)).startswith("No measurable difference in tokens/s: ")
    assert "8 and 2 throughput intervals are too few, 6 of each" in verdict(run(*QUIET), run(1.0, 2.0))
    assert "no rate (tokens, samples or steps/s) is known of both" in verdict(
        run(), run_of(None, top_ops=(op_total(),))
    )


def test_what_makes_figures_no_measure_of_each_other_is_said_first() -> None:
    after = run(1.0, run=run_info(device_name="Another", torch_version="2.15"))

    said = outline(compare(run(), after))

    assert said.verdict.startswith("Not comparable (device): ")
    assert said.doubts == (
        "Not comparable: it is another device (device Some CPU before, Another after).",
        "Compare with care: the versions have a speed of their own (torch 2.14 before, 2.15 after).",
    )


def test_with_another_batch_size_both_tokens_and_steps_are_told() -> None:
    amounts = counted([2 * s for s in reversed(QUIET)], samples=640, tokens=81_920)
    large = run_of(amounts, loader=LoaderInfo("DataLoader", batch_size=64))
    said = outline(compare(run(*QUIET), large))

    assert said.verdict.startswith("2.00x as fast in tokens/s")
    assert any(note.startswith("Steps are of another size: tokens/s tells") for note in said.notes)
    speed = {row.name: row.change.partition(" (")[0] for row in said.tables[0].rows}
    assert (speed["tokens/s"], speed["steps/s"]) == ("2.00x", "-50 %")
    assert said.settings is not None
    assert Row("batch size", "16", "64") in said.settings.rows


def test_findings_tell_what_became_of_them() -> None:
    before = run(findings=(finding(rule="host-sync"), finding(rule="gc-pause", share=0.4)))
    after = run(1.0, 1.0, findings=(finding(rule="gc-pause", share=0.1), finding(rule="slow-hook", share=None)))
    cards = [(card.kind, card.rule, card.change) for card in outline(compare(before, after)).findings]

    assert cards == [
        ("gone", "host-sync", "31 % of the step before"),
        ("new", "slow-hook", "cost not measured after"),
        ("changed", "gc-pause", "40 % of the step before, 10 % of the step after; place 2 in the list before, 1 after"),
    ]


def test_a_finding_that_is_gone_advises_nothing() -> None:
    (card,) = outline(compare(run(findings=(finding(),)), run(1.0, 1.0))).findings

    assert (card.summary, card.advice) == ("", "")
    assert "train.py:12" in card.place


def test_what_was_not_judged_is_not_called_gone() -> None:
    before = run(findings=(finding(rule="host-sync"),))
    (card,) = outline(compare(before, run(1.0, 1.0, skipped={"host-sync": "no step was audited"}))).findings

    assert card.kind == "not judged"
    assert card.change == "31 % of the step before; the rule did not judge after: no step was audited"


def test_operations_keep_the_names_that_they_have() -> None:
    named = run(top_ops=(op_total(name="aten::_fused_adamw_"),))
    tables = {table.of: table for table in outline(compare(named, run(1.0, 1.0, top_ops=named.top_ops))).tables}

    assert [row.name for row in tables["operation"].rows] == ["aten::_fused_adamw_"]
