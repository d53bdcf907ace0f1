from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest

from lightning_perfwatch.reporters import html
from lightning_perfwatch.rules import Rule
from tests.reporters.factories import REPORTS, finding, hostile_report, op_total, phases, report

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, their attributes and the text between them; fails on elements that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
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
        self.text += data

    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_is_well_formed_and_stands_alone(name: str) -> None:
    text = html.render(REPORTS[name])
    page = Page(text)

    assert not page.names() & {"script", "link", "img", "iframe", "base", "form"}
    assert not [key for _, attributes in page.elements for key in attributes if key in ("src", "href")]
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text


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

    assert "<script>" not in text
    assert "{{ 7*7 }}" in text
    assert "<script>alert('x')</script>" in Page(text).text


def test_the_stacked_bar_is_as_long_as_the_step() -> None:
    page = html.render(report(phases=phases(data_wait=25.0, forward=70.0, other=5.0)))

    assert re.findall(r'style="width: ([\d.]+)%"', page) == ["25.00", "70.00", "5.00"]


def test_a_finding_has_a_card_with_cost_place_and_advice() -> None:
    page = Page(html.render(report()))

    assert ("article", {"class": "finding warning"}) in page.elements
    for said in ("31 % of the step, up to 1.4x faster", "my project/train.py:12", "Set num_workers=4"):
        assert said in page.text


def test_all_operations_are_listed() -> None:
    names = [f"op{number}" for number in range(10)]
    page = html.render(report(top_ops=tuple(op_total(name=name) for name in names)))

    assert re.findall(r">(op\d)<", page) == names


def test_a_finding_carries_its_rule_page(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Documented(Rule):
        """Too much <b>waiting</b>.

        Why it costs: the device idles.
        """

    monkeypatch.setattr(html, "all_rules", lambda: {"documented": Documented})
    page = Page(html.render(report(findings=(finding(rule="documented"), finding(rule="of-a-newer-version")))))

    assert "Too much <b>waiting</b>.\n\nWhy it costs: the device idles." in page.text
    assert page.text.count("About documented") == 1
    assert "About of-a-newer-version" not in page.text
