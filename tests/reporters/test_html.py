from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from lightning_perfwatch.reporters import html
from lightning_perfwatch.reporters import page as page_parts
from lightning_perfwatch.rules import Rule
from lightning_perfwatch.trace import Timeline
from lightning_perfwatch.trace.timeline import MOST_EVENTS
from tests.reporters.factories import (
    REPORTS,
    drawn,
    finding,
    hostile_report,
    lane,
    op_total,
    phases,
    report,
)

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, their attributes and the text between them; fails on elements that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.elements[-1][1], data))
        else:
            self.text += data

    def names(self) -> set[str]:
        return {name for name, _ in self.elements}

    def values(self, attribute: str) -> list[str | None]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_is_well_formed_and_stands_alone(name: str) -> None:
    page = Page(html.render(REPORTS[name]))

    assert not page.names() & {"link", "img", "iframe", "base", "form"}
    assert page.values("src") == []
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert "url(" not in page.text
    assert "@import" not in page.text


@pytest.mark.parametrize("name", REPORTS)
def test_every_link_leads_to_a_part_of_the_page(name: str) -> None:
    page = Page(html.render(REPORTS[name]))

    assert {f"#{place}" for place in page.values("id")} >= set(page.values("href")) >= {"#about"}
    assert len(page.values("id")) == len(set(page.values("id")))


def test_the_page_runs_its_own_scripts_only_and_connects_to_nothing() -> None:
    page = Page(html.render(drawn()))
    (policy,) = (
        attributes["content"] or ""
        for _, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    run = [text for attributes, text in page.scripts if "type" not in attributes]

    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert rules["script-src"].split() == [
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in run
    ]


def test_a_page_without_charts_carries_no_library() -> None:
    assert len(html.render(report())) < 60_000


def test_a_page_stays_below_six_megabytes_with_the_longest_names() -> None:
    names = tuple(f"void at::native::kernel_{number}<{'x' * 400}>" for number in range(MOST_EVENTS))
    events = ((number, 8.0 * number, 5.0, 0) for number in range(MOST_EVENTS))
    page = html.render(drawn(timeline=Timeline(1, 400_000.0, names, (lane(*events),))))

    assert len(page.encode()) < 6_000_000


def test_the_page_fits_a_phone_and_a_dark_room() -> None:
    text = html.render(report())

    assert 'name="viewport" content="width=device-width, initial-scale=1"' in text
    assert "prefers-color-scheme: dark" in text


def test_a_healthy_run_has_no_card() -> None:
    page = Page(html.render(report(findings=())))

    assert "No bottleneck found." in page.text
    assert "article" not in page.names()


def test_markup_in_names_stays_text() -> None:
    text = html.render(hostile_report())

    assert "<script>alert" not in text
    assert "{{ 7*7 }}" in text
    assert "<script>alert('x')</script>" in Page(text).text


def test_the_stacked_bar_is_as_long_as_the_step() -> None:
    page = html.render(report(phases=phases(data_wait=25.0, forward=70.0, other=5.0)))

    assert re.findall(r'style="width: ([\d.]+)%"', page) == ["25.00", "70.00", "5.00"]


def test_a_finding_has_a_card_with_cost_place_and_advice() -> None:
    page = Page(html.render(report()))

    assert "finding warning" in page.values("class")
    for said in ("31 % of the step, up to 1.4x faster", "my project/train.py:12", "Set num_workers=4"):
        assert said in page.text


def test_all_operations_are_listed() -> None:
    names = [f"op{number}" for number in range(10)]
    page = html.render(report(top_ops=tuple(op_total(name=name) for name in names)))

    assert re.findall(r">(op\d)<", page) == names


def test_the_three_slowest_operations_are_marked() -> None:
    page = html.render(report(top_ops=tuple(op_total(name=f"op{number}", self_s=number / 10) for number in range(5))))

    assert re.findall(r">(op\d)<", page) == ["op4", "op3", "op2", "op1", "op0"]
    assert page.count('class="slow"') == 3
    assert page.index('class="slow-mark"') < page.rindex('class="slow-mark"') < page.index(">op1<")


def test_a_finding_shows_the_lines_around_its_place_with_the_line_marked() -> None:
    page = html.render(drawn())

    assert "<span><b>11</b>    # no workers</span><mark><b>12</b>    return DataLoader(</mark>" in page
    assert page.count("<mark>") == 1


def test_a_finding_without_an_excerpt_names_its_place_only() -> None:
    page = Page(html.render(drawn(excerpts={})))

    assert "my project/train.py:12" in page.text
    assert "pre" not in page.names()


def test_a_trace_of_which_no_step_can_be_drawn_says_so() -> None:
    assert "no whole step of this trace was kept" in html.render(report(timeline=None, window_s=0.1))
    assert "no whole step of this trace was kept" not in html.render(report(timeline=None, window_s=None))


def test_a_finding_carries_its_rule_page(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Documented(Rule):
        """Too much <b>waiting</b>.

        Why it costs: the ``<device>`` idles.
        """

    monkeypatch.setattr(page_parts, "all_rules", lambda: {"documented": Documented})
    written = html.render(report(findings=(finding(rule="documented"), finding(rule="of-a-newer-version"))))
    page = Page(written)

    assert "Too much <b>waiting</b>.\n\nWhy it costs: the <device> idles." in page.text
    assert "the <code>&lt;device&gt;</code> idles" in written
    assert page.text.count("About documented") == 1
    assert "About of-a-newer-version" not in page.text
