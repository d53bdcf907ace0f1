"""The report page in a browser that is cut off from the network: what is seen, and what a hand can do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from lightning_perfwatch.report import Report, to_json
from lightning_perfwatch.reporters import render
from lightning_perfwatch.reporters.wording import amount, duration, percent
from tests.browser import PHONE, Browser
from tests.reporters.factories import REPORTS, drawn, hostile_report, long_timeline, op_total, rank

DRAWN = "return performance.getEntriesByName('perfwatch-drawn').length > 0"
# Where a point of a chart is in the window: the number of the chart, milliseconds or seconds, and the row.
POINT = """
const chart = charts[arguments[0]];
const { frame, el } = chart.document.views_manager.get(chart);
const box = el.getBoundingClientRect();
return [box.left + frame.x_scale.compute(arguments[1]), box.top + frame.y_scale.compute(arguments[2])];
"""
TIP = """
const found = [];
const search = (root) => {
  for (const element of root.querySelectorAll("*")) {
    if (element.className === "tip") { found.push(element); }
    if (element.shadowRoot) { search(element.shadowRoot); }
  }
};
search(document);
const shown = found.filter((tip) => tip.getBoundingClientRect().width > 0).at(-1);
if (!shown) { return null; }
return { text: shown.innerText.split("\\n"), elements: [...shown.querySelectorAll("*")].map((e) => e.tagName) };
"""
RANGE = "return [charts.at(-1).x_range.start, charts.at(-1).x_range.end]"


def show(browser: Browser, folder: Path, report: Report) -> Browser:
    file = folder / "report.html"
    file.write_text(render(report, "html"))
    browser.open(file)
    if report.timeline is not None and browser.run("return typeof charts !== 'undefined'"):
        browser.wait_for(DRAWN)
    return browser


def point(browser: Browser, chart: int, x: float, y: float) -> tuple[float, float]:
    browser.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", CHART_PLACES[chart])
    left, top = browser.run(POINT, chart, x, y)
    return left, top


CHART_PLACES = ("throughput-chart", "timeline-chart")


def tip_at(browser: Browser, chart: int, x: float, y: float) -> dict[str, Any]:
    left, top = point(browser, chart, x, y)
    browser.point_at(left - 3, top)
    browser.point_at(left, top)
    tip: dict[str, Any] = browser.wait_for(TIP)
    return tip


def rows(browser: Browser, table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in row]
        for row in browser.run(
            "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
            ".map((row) => [...row.cells].map((cell) => (cell.querySelector('.name') ?? cell).innerText))",
            table,
        )
    ]


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_renders_without_a_network_and_without_complaints(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    show(browser, tmp_path, REPORTS[name])

    assert browser.console() == []
    assert browser.requests() == []
    assert browser.find("h1").text


def test_the_figures_on_the_screen_are_those_of_the_json(browser: Browser, tmp_path: Path) -> None:
    report = drawn(ranks=(rank(0), rank(1, tokens_per_s=900.0)))
    stored = json.loads(to_json(report))
    show(browser, tmp_path, report)

    speed = dict(zip(browser.texts(".tiles dt"), browser.texts(".tiles dd"), strict=True))
    assert speed["tokens/s"] == amount(stored["throughput"]["tokens_per_s"])
    assert speed["samples/s"] == amount(stored["throughput"]["samples_per_s"])
    assert [row[2] for row in rows(browser, "#step")] == [percent(part["share"]) for part in stored["phases"].values()]
    assert rows(browser, "#operations") == [
        [op["name"], duration(op["self_s"]), percent(op["share"]), amount(op["calls_per_step"]), op["clock"]]
        for op in stored["top_ops"]
    ]
    assert [row[2] for row in rows(browser, "#ranks")] == [amount(rank["tokens_per_s"]) for rank in stored["ranks"]]
    (finding,) = stored["findings"]
    assert browser.texts(".finding .evidence dd") == [duration(finding["evidence"]["data_wait_s"])]
    assert percent(finding["share"]) in browser.find(".cost").text
    assert f"{finding['gain']:.1f}x" in browser.find(".cost").text


def test_the_bar_is_divided_as_the_json_says(browser: Browser, tmp_path: Path) -> None:
    report = drawn()
    show(browser, tmp_path, report)

    widths = [part.rect["width"] for part in browser.find_all(".bar span")]
    whole = browser.find(".bar").rect["width"]
    for width, phase in zip(widths, report.phases.values(), strict=True):
        assert width / whole == pytest.approx(phase.share, abs=0.002)


def test_the_charts_hold_what_the_json_says(browser: Browser, tmp_path: Path) -> None:
    report = drawn()
    stored = json.loads(to_json(report))
    show(browser, tmp_path, report)

    def column(chart: int, source: str, name: str) -> list[float]:
        script = "return [...charts[arguments[0]].document.get_model_by_name(arguments[1]).data[arguments[2]]]"
        values: list[float] = browser.run(script, chart, source, name)
        return values

    intervals = stored["counted"]["intervals"]
    assert column(0, "rates", "rate") == [part["tokens"] / part["duration_s"] for part in intervals]
    assert column(0, "rates", "x") == [part["end_s"] for part in intervals]
    validations = [mark for mark in stored["marks"] if mark["kind"] == "validation"]
    assert column(0, "validation-marks", "x0") == [mark["begin_s"] for mark in validations]
    events = [begin for lane in stored["timeline"]["lanes"] for begin in lane["begin_us"]]
    assert column(1, "events", "begin_ms") == [begin / 1e3 for begin in events]


def test_hovering_tells_of_the_event_and_the_interval(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())

    # The thread is the third lane; its name is in row 4 and its nested operator two rows below.
    assert tip_at(browser, 1, 15.0, 6.5)["text"] == ["aten::addmm", "begins at 13.5 ms, takes 4.00 ms", "thread 1"]
    assert tip_at(browser, 0, 4.6, 11_010)["text"] == ["11,010 tokens/s", "4.60 s, steps 30 to 39"]
    assert tip_at(browser, 0, 3.8, 5_000)["text"] == ["validation before step 30", "600 ms"]


def test_the_timeline_zooms_and_moves_by_buttons(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())
    assert browser.run(RANGE) == [0, 40]

    browser.find("[data-timeline=in]").click()
    assert browser.run(RANGE) == [10, 30]
    browser.find("[data-timeline=right]").click()
    assert browser.run(RANGE) == [15, 35]
    assert browser.wait_for("return document.getElementById('timeline-range').textContent === '15.0 ms to 35.0 ms'"), (
        browser.find("#timeline-range").text
    )
    browser.find("[data-timeline=out]").click()
    assert browser.run(RANGE) == [0, 40]


def test_the_timeline_zooms_by_keys(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())
    browser.run("document.getElementById('timeline-chart').focus()")

    browser.press("+", Keys.ARROW_LEFT)
    assert browser.run(RANGE) == [5, 25]
    browser.press("0")
    assert browser.run(RANGE) == [0, 40]


def test_the_timeline_zooms_by_wheel_and_moves_by_dragging(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())
    left, top = point(browser, 1, 10.0, 2)

    browser.turn_wheel(left, top, by=-240, with_ctrl=True)
    start, end = browser.wait_for(f"{RANGE.replace('return', 'const range =')}; return range[1] < 40 && range")
    assert start < 10 < end

    browser.drag(left, top, by=-100)
    browser.wait_for("return charts.at(-1).x_range.start > arguments[0]", start)
    moved_start, moved_end = browser.run(RANGE)
    assert moved_end - moved_start == pytest.approx(end - start)


def test_the_wheel_alone_scrolls_the_page(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn(timeline=long_timeline()))
    left, top = point(browser, 1, 10.0, 20)
    before = browser.run("return scrollY")

    browser.turn_wheel(left, top, by=120)
    browser.wait_for("return scrollY > arguments[0]", before)
    assert browser.run(RANGE) == [0, 400]


def test_names_are_written_where_zooming_makes_room(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn(timeline=long_timeline(5_000)))
    words = "return charts.at(-1).document.get_model_by_name('event-labels').data.text"
    before = len(browser.run(words))

    for _ in range(9):
        browser.find("[data-timeline=in]").click()
    shown = browser.wait_for(
        f"{words.replace('return', 'const words =')}; return words.length > arguments[0] && words", before
    )
    assert {word[:3] for word in shown} == {"ate"}


def test_tables_are_sorted_by_click_and_by_key(browser: Browser, tmp_path: Path) -> None:
    ops = (
        op_total(name="b", self_s=0.9, calls_per_step=2.0),
        op_total(name="c", self_s=0.05, calls_per_step=10.0),
        op_total(name="a", self_s=0.0001, calls_per_step=None),
    )
    show(browser, tmp_path, drawn(top_ops=ops))
    heads = browser.find_all("#operations thead th")

    def names() -> list[str]:
        return [row[0] for row in rows(browser, "#operations")]

    assert names() == ["b", "c", "a"]
    assert heads[1].get_attribute("aria-sort") == "descending"
    browser.find("#operations thead th:nth-child(2) button").click()
    assert names() == ["a", "c", "b"]
    assert heads[1].get_attribute("aria-sort") == "ascending"

    browser.run("document.querySelector('#operations thead th:nth-child(4) button').focus()")
    browser.press(Keys.ENTER)
    assert names() == ["c", "b", "a"], "what was not measured stays last"
    browser.press(Keys.SPACE)
    assert names() == ["b", "c", "a"]
    assert [head.get_attribute("aria-sort") for head in heads] == ["none", "none", "none", "ascending", "none"]


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, hostile_report())
    browser.find("#timeline summary").click()

    assert "<script>alert('x')</script>" in browser.find("h1").text
    assert "</code></pre><script>alert(1)</script>" in browser.find(".code").text
    hostile = ("</script><script>alert(1)</script>", "$$x^2$$", "<img src=x onerror=alert(1)>")
    for begin_ms, name in zip((13.0, 22.0, 31.0), hostile, strict=True):
        tip = tip_at(browser, 1, begin_ms, 1.5)
        assert tip["text"][0] == name
        assert set(tip["elements"]) == {"STYLE", "DIV"}
    assert browser.console() == []
    assert browser.requests() == []


def test_the_page_allows_no_other_script_and_no_connection(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())

    browser.run(
        "const other = document.createElement('script'); other.text = 'window.ran = 1'; document.body.append(other)"
    )
    browser.run(
        "fetch('http://127.0.0.1:9/').catch(() => {}); document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/'}))"
    )
    assert browser.run("return window.ran") is None
    assert any("Content Security Policy" in message for message in browser.console())
    assert browser.requests() == []


@pytest.mark.parametrize("name", ["drawn", "full", "hostile names", "devices", "empty"])
def test_a_phone_needs_no_sideways_scrolling(name: str, browser: Browser, tmp_path: Path) -> None:
    browser.resize(PHONE)
    show(browser, tmp_path, REPORTS[name])

    assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]
    assert browser.run(BEYOND_THE_WINDOW) == []


BEYOND_THE_WINDOW = """
return [...document.querySelectorAll("main *")]
  .filter((element) => !element.closest(".scroll, pre") && element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => element.outerHTML.slice(0, 80));
"""
CONTRAST = """
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [a, b] = [luminance(one), luminance(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
const behind = (element) => {
  for (let e = element; e !== null; e = e.parentElement) {
    const [r, g, b, alpha] = channels(getComputedStyle(e).backgroundColor);
    if (alpha === undefined || alpha === 1) { return [r, g, b]; }
  }
  return [255, 255, 255];
};
"""
WORDS = (
    CONTRAST
    + """
for (const details of document.querySelectorAll("details")) { details.open = true; }
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const poor = [];
let seen = 0;
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const isSeen = !element.closest("script, style") && element.getClientRects().length > 0;
  if (!isSeen || !walker.currentNode.data.trim()) { continue; }
  seen += 1;
  const found = ratio(channels(getComputedStyle(element).color).slice(0, 3), behind(element));
  if (found < 4.5) { poor.push([walker.currentNode.data.trim().slice(0, 40), found]); }
}
return [seen, poor];
"""
)
DRAWN_COLOURS = (
    CONTRAST
    + """
const probe = document.createElement("i");
document.body.append(probe);
const of = (variable) => {
  probe.style.color = `var(${variable})`;
  return channels(getComputedStyle(probe).color).slice(0, 3);
};
const parts = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => `--p${number}`);
return [
  Math.min(...parts.map((part) => ratio(of(part), of("--on-part")))),
  ratio(of("--quiet"), of("--card")),
  Math.min(...parts.map((part) => ratio(of(part), of("--card")))),
];
"""
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_stand_out_from_what_is_behind_them(scheme: str, browser: Browser, tmp_path: Path) -> None:
    browser.prefer(scheme)
    show(browser, tmp_path, REPORTS["all severities"])

    seen, poor = browser.run(WORDS)
    assert seen > 50
    assert poor == []
    words_on_parts, words_on_cards, parts_on_cards = browser.run(DRAWN_COLOURS)
    assert words_on_parts >= 4.5
    assert words_on_cards >= 4.5
    assert parts_on_cards >= 3.0  # WCAG 2.2, 1.4.11: what is no text


def test_charts_follow_the_colour_scheme(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())
    axis = "return charts[0].left[0].axis_label_text_color"
    light = browser.run(axis)

    browser.prefer("dark")
    dark = browser.wait_for(f"{axis.replace('return', 'const now =')}; return now !== arguments[0] && now", light)
    browser.run("document.documentElement.dataset.theme = 'light'")
    browser.wait_for(f"{axis} === arguments[0]", light)
    assert dark == browser.run("return '#9aa6b6'")


def test_everything_is_reached_by_the_tab_key_and_shows_it(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, drawn())
    reached = []
    for _ in range(60):
        browser.press(Keys.TAB)
        name, outline = browser.run(
            "let e = document.activeElement;"
            "while (e.shadowRoot) { e = e.shadowRoot.activeElement; }"
            "return [e.innerText || e.getAttribute('aria-label') || '', getComputedStyle(e).outlineStyle]"
        )
        if not browser.run("return document.activeElement !== document.body"):
            break
        reached.append(name.strip())
        assert outline != "none", name
    for wanted in (
        "Findings",
        "Zoom in",
        "Whole step",
        "self time",
        "About dataloader-starvation",
        "The lanes as a table",
    ):
        assert wanted in reached


def test_without_scripts_the_page_still_reads(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(drawn(), "html"))
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.driver.get(file.as_uri())

    assert "7 intervals, from 4,000 to 11,010 tokens/s" in browser.find("#throughput").text
    assert "Zoom in" not in browser.find("#timeline").text
    assert "aten::mm" in browser.find("#operations").text
