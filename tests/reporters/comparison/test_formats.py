from __future__ import annotations

import io
import json
from itertools import product

import pytest

from lightning_perfwatch.comparison import compare
from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import FORMATS
from lightning_perfwatch.reporters.comparison import render, text
from lightning_perfwatch.reporters.comparison.outline import outline
from tests.comparison.factories import run
from tests.reporters.factories import HOSTILE, REPORTS, finding, hostile_report, report
from tests.reporters.test_html import Page

FULL = {name: one for name, one in REPORTS.items() if name != "empty"}


@pytest.mark.parametrize(("name", "format_"), list(product(FULL, FORMATS)))
def test_every_format_renders_every_pair(name: str, format_: str) -> None:
    for pair in ((FULL[name], run()), (run(), FULL[name]), (FULL[name], FULL[name])):
        shown = render(compare(*pair), format_)

        assert shown.endswith("\n")
        assert shown.encode()
        assert "\x1b" not in shown
        assert "None" not in shown


def test_an_unknown_format_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'markdown'"):
        render(compare(run(), run()), "markdwon")


def both() -> tuple[Report, Report]:
    return run(findings=(finding(rule="host-sync"),)), report(
        findings=(finding(),), counted=run(1.1, 1.2).counted, skipped={}
    )


def test_all_formats_say_the_same() -> None:
    comparison = compare(*both())
    said = outline(comparison)
    shown = {
        "text": " ".join(text.render(comparison).split()),
        "html": " ".join(Page(render(comparison, "html")).text.split()),
        "markdown": render(comparison, "markdown").replace("\\", ""),
    }

    wanted = [said.verdict, *said.notes, *(card.change for card in said.findings)]
    wanted += [row.before for table in said.tables for row in table.rows]
    for format_, whole in shown.items():
        assert [one for one in wanted if one not in whole] == [], format_


def test_the_page_stands_alone_and_names_stay_text() -> None:
    page = render(compare(hostile_report(), run()), "html")

    assert "<script>" not in page
    assert "{{ 7*7 }}" in page
    assert not Page(page).names() & {"script", "link", "img", "iframe", "base", "form"}
    assert "http" not in page.replace("http-equiv", "")


def test_markdown_shows_hostile_names_as_they_are() -> None:
    shown = render(compare(run(findings=(finding(rule=HOSTILE),)), run(1.0, 1.1)), "markdown")

    assert "<script>" not in shown
    assert "`b`" not in shown.replace("\\`b\\`", "")


def test_json_holds_the_figures() -> None:
    document = json.loads(render(compare(*both()), "json"))

    assert document["schema_version"] == 1
    assert document["main_rate"] == "tokens_per_s"
    assert {one["rate"] for one in document["speed"]} == {"tokens_per_s", "samples_per_s", "steps_per_s"}
    assert [one["kind"] for one in document["findings"]] == ["gone", "new"]


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    text.show(compare(*both()), terminal)
    text.show(compare(*both()), pipe)

    assert pipe.getvalue() == text.render(compare(*both()))
    assert "findings" in terminal.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_keep_within_the_width_but_for_places(width: int) -> None:
    lines = text.render(compare(*both()), width).splitlines()

    assert [line for line in lines if len(line) > width and not line.startswith("    at  ")] == []


def test_sentences_stay_whole_where_nothing_says_how_wide_a_line_is() -> None:
    shown = text.render(compare(*both())).splitlines()

    assert f"    {finding().summary}" in shown


def test_an_ascii_stream_gets_arrows_of_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)  # it closes what is below when it goes
    text.show(compare(*both()), stream)

    assert b" -> " in raw.getvalue()
    assert b"?" not in raw.getvalue()
