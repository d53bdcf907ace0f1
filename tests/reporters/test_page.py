from __future__ import annotations

from lightning_perfwatch.measurements import Excerpt
from lightning_perfwatch.reporters.outline import outline
from lightning_perfwatch.reporters.page import CodeLine, Column, Tile, finding_cards, operations, ranks, speed, verdict
from lightning_perfwatch.reporters.wording import Fact
from tests.reporters.factories import HOSTILE, drawn, finding, op_total, rank, report


def test_the_first_sentence_is_the_most_severe_finding() -> None:
    one = finding()
    assert verdict(outline(report(findings=(one,)))) == "dataloader-starvation: 31 % of the step, up to 1.4x faster"
    assert verdict(outline(report(findings=(one, one)))).endswith("faster, and 1 more finding")
    assert verdict(outline(report(findings=(one, one, one)))).endswith("faster, and 2 more findings")
    assert verdict(outline(report(findings=(), skipped={}))) == "No bottleneck found."


def test_short_figures_stand_out_with_their_remark_in_small() -> None:
    facts = (
        Fact("tokens/s", "12,346 (95 % 11,000 to 13,000)"),
        Fact("trained on", "71,000 tokens, 560 samples, 70 batches"),
        Fact("steps/s", "24.9"),
    )

    assert speed(facts) == (
        (Tile("tokens/s", "12,346", "95 % 11,000 to 13,000"), Tile("steps/s", "24.9", "")),
        (facts[1],),
    )


def test_operations_are_ordered_by_time_and_never_marked_beyond_their_number() -> None:
    table = operations((op_total(name="b", self_s=0.1), op_total(name="a", self_s=0.2)))

    assert [row[0].text for row in table.rows] == ["a", "b"]
    assert table.num_marked == 2


def test_columns_without_a_measurement_are_left_out() -> None:
    table = ranks((rank(0, samples_per_s=None), rank(1, samples_per_s=None, tokens_per_s=None)))

    assert Column("tokens/s", True) in table.columns
    assert not [column for column in table.columns if column.name in ("samples/s", "busy", "window")]
    assert [row[2].text for row in table.rows] == ["1,000", "not measured"]
    assert table.rows[1][2].key is None


def test_one_rank_is_no_table() -> None:
    assert ranks((rank(0),)).rows == ()


def test_code_keeps_its_shape_without_control_characters_and_common_indentation() -> None:
    lines = ("\tif slow:\x1b\r\n", "\t\tprint(1)", "")
    given = drawn(excerpts={"/home/me/my project/train.py:12": Excerpt("x", 11, lines)})
    (card,) = finding_cards(given, outline(given))

    assert card.code == (CodeLine(11, "if slow:", False), CodeLine(12, "    print(1)", True), CodeLine(13, "", False))


def test_an_unknown_rule_has_no_page() -> None:
    given = report(findings=(finding(rule=HOSTILE),))
    (card,) = finding_cards(given, outline(given))

    assert card.about is None
