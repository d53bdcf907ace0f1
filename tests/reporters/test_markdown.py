from __future__ import annotations

import html
import re

import pytest

from lightning_perfwatch.reporters import markdown, tensorboard
from tests.reporters.factories import finding, hostile_report, op_total, rank, report


def test_a_healthy_run_has_no_finding() -> None:
    text = markdown.render(report(findings=()))

    assert "### No bottleneck found." in text
    assert "Fix:" not in text


def test_empty_parts_leave_no_empty_table() -> None:
    text = markdown.render(report(top_ops=(), ranks=(), skipped={}, phases={}))

    assert "slowest operations" not in text
    assert "| rank" not in text
    assert "rules skipped" not in text


def test_every_row_of_a_table_has_the_cells_of_its_head() -> None:
    text = markdown.render(hostile_report())

    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1


def test_the_step_and_the_operations_are_tables() -> None:
    text = markdown.render(report())

    assert "| data wait | 12.3 ms | 31 % |" in text
    assert "| step | 40.0 ms | 100 % |" in text
    assert "| aten::mm | 50.1 ms | 41 % |" in text


def test_findings_are_numbered_and_say_what_where_and_fix() -> None:
    text = markdown.render(report(findings=(finding(), finding(rule="host-sync", share=None))))

    assert "**1. WARNING dataloader-starvation**: 31 % of the step, up to 1.4x faster" in text
    assert "- Where: /home/me/my project/train.py:12 · Loader.next" in text
    assert "- Fix: Set num_workers=4 on the training DataLoader." in text
    assert "**2. WARNING host-sync**: cost not measured" in text


def test_ranks_have_a_table() -> None:
    assert "| rank 1 | node, tokens/s 1,000," in markdown.render(report(ranks=(rank(0), rank(1))))


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("num_workers=4", "num_workers=4"),
        ("__init__ _x", r"\_\_init\_\_ \_x"),
        ("a|b", "a&#124;b"),
        ("`rm`", r"\`rm\`"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("[a](b)", r"\[a\](b)"),
        ("*x* ~~y~~ \\", r"\*x\* &#126;&#126;y&#126;&#126; " + "\\\\"),
    ],
)
def test_markup_in_a_name_stays_text(name: str, escaped: str) -> None:
    assert markdown.escape(name) == escaped


def test_tensorboard_renders_tables_and_keeps_hostile_names_as_text() -> None:
    plugin_util = pytest.importorskip("tensorboard.plugin_util")

    text = markdown.render(report(top_ops=(op_total(name="a|b <i>c</i> `d`"),)))
    page = plugin_util.markdown_to_safe_html(text)

    assert "<i>" not in page
    assert "<td>a|b <i>c</i> `d`</td>" in html.unescape(page)
    assert page.count("<table>") >= 4


def test_tensorboard_gets_the_report_as_text_at_its_step() -> None:
    written: list[tuple[str, str, int | None]] = []

    class Writer:
        def add_text(self, tag: str, text_string: str, global_step: int | None = None) -> None:
            written.append((tag, text_string, global_step))

    tensorboard.write_text(report(), Writer(), 120)

    assert written == [("perfwatch/report", markdown.render(report()), 120)]
