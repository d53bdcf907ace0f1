"""The tab in a browser that is cut off from the network: what is seen, and what a hand can do with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from lightning_perfwatch import report as report_json
from lightning_perfwatch.measurements import LoaderInfo, Window
from lightning_perfwatch.report import Report, Throughput
from lightning_perfwatch.reporters.wording import amount, duration, percent
from tests.browser import Browser
from tests.reporters.factories import HOSTILE, hostile_report, phases, report
from tests.tensorboard_plugin.serving import Board, store, tensorboard

FIRST, SECOND = "rank0.1.pt.trace.json.gz", "rank0.2.pt.trace.json.gz"
FRAMES = "iframe[title^='PerfWatch report']"


def runs(logdir: Path) -> dict[str, Report]:
    """Two runs by their titles, of which the second is the newer one and has two windows."""
    windows = (Window(4, 3, 3, FIRST), Window(20, 3, 3, SECOND))
    slow = report(loader=LoaderInfo("DataLoader", num_workers=0, batch_size=32))
    fast = replace(
        report(loader=LoaderInfo("DataLoader", num_workers=4, batch_size=32), findings=(), windows=windows),
        trace=SECOND,
        phases=phases(data_wait=0.0, forward=10.0, backward=20.0),
        throughput=replace(slow.throughput, tokens_per_s=98_765.0),
    )
    store(logdir / "slow" / "perfwatch", slow)
    directory = store(logdir / "fast" / "perfwatch", fast)
    then = replace(fast, throughput=Throughput(), notes=("as it was then",), trace=FIRST)
    directory.window_report_file(FIRST).write_text(report_json.to_json(then))
    return {"slow": slow, "fast": fast}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tab")


@pytest.fixture(scope="module")
def stored(logdir: Path) -> dict[str, Report]:
    return runs(logdir)


@pytest.fixture(scope="module")
def board(logdir: Path, stored: dict[str, Report]) -> Iterator[Board]:
    with tensorboard(logdir) as started:
        yield started


@pytest.fixture
def tab(browser: Browser, board: Board) -> Browser:
    browser.open(board.tab)
    wait_for_pages(browser, 1)
    return browser


def wait_for_pages(browser: Browser, count: int) -> None:
    """Until exactly this many reports are there, and none of them is on its way."""
    browser.wait_for(
        "return document.querySelectorAll(arguments[0]).length === arguments[1] && document.readyState === 'complete'",
        FRAMES,
        count,
    )


@contextmanager
def page(browser: Browser, number: int = 0) -> Iterator[None]:
    """Within this context the browser looks into a report."""
    browser.driver.switch_to.frame(browser.find_all(FRAMES)[number])
    try:
        browser.wait_for("return document.readyState === 'complete' && document.querySelector('body p') !== null")
        yield
    finally:
        browser.driver.switch_to.parent_frame()


def text_of_page(browser: Browser, number: int = 0) -> str:
    with page(browser, number):
        return browser.find("body").text


def complaints(browser: Browser) -> list[str]:
    """What the console says of the tab and the reports; TensorBoard has complaints about itself."""
    return [entry for entry in browser.console() if "plugin/perfwatch" in entry or "plugin_entry" in entry]


def choose(browser: Browser, picker: str, option: str) -> None:
    browser.find(picker).send_keys(option)


def click(browser: Browser, selector: str) -> None:
    browser.find(selector).click()


def cells(browser: Browser, run: str) -> dict[str, str]:
    head = [text.rstrip(" ▾▴") for text in browser.texts(".runs thead th")]
    rows = browser.run(
        "return [...document.querySelectorAll('.runs tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    return next(dict(zip(head, row, strict=True)) for row in rows if row[0] == run)


def test_tensorboard_shows_the_tab_with_the_newest_run(browser: Browser, board: Board) -> None:
    browser.open(f"{board.url}/#perfwatch")
    browser.wait_for("return document.querySelector('iframe') !== null")
    browser.driver.switch_to.frame(browser.find("iframe"))
    wait_for_pages(browser, 1)

    assert "98,765" in text_of_page(browser)
    assert complaints(browser) == []
    assert all(address.startswith(board.url) for address in browser.requests())
    browser.driver.switch_to.default_content()


def test_the_figures_on_screen_are_those_of_the_stored_reports(tab: Browser, stored: dict[str, Report]) -> None:
    click(tab, ".runs summary")
    for title, expected in stored.items():
        speed = expected.throughput
        assert speed.tokens_per_s is not None and speed.step_time_s is not None
        assert expected.loader is not None and expected.run is not None
        shown = cells(tab, title)
        assert shown["tokens/s"] == amount(speed.tokens_per_s)
        assert shown["step p50"] == duration(speed.step_time_s.p50)
        assert shown["step p95"] == duration(speed.step_time_s.p95)
        assert shown["data wait"] == percent(expected.phases["data_wait"].share)
        assert shown["workers"] == str(expected.loader.num_workers)
        assert shown["model"] == expected.run.model
        assert shown["findings"] == str(len(expected.findings))
    assert complaints(tab) == []


def test_another_run_is_chosen_with_the_keyboard(tab: Browser) -> None:
    tab.find("body").send_keys(Keys.TAB)
    while tab.run("return document.activeElement.tagName") != "SELECT":
        tab.press(Keys.TAB)
    assert tab.run("return document.activeElement.value") == "fast/perfwatch"
    tab.press(Keys.ARROW_DOWN)

    tab.wait_for("return document.querySelector(arguments[0])?.title.endsWith('slow')", FRAMES)
    assert "98,765" not in text_of_page(tab)


def test_an_earlier_window_can_be_looked_at(tab: Browser) -> None:
    picker = ".pane:not([hidden]) .pickers label:nth-child(2) select"
    assert [option.text for option in tab.find_all(f"{picker} option")] == [
        "the run up to now, trace of steps 20 to 22",
        "as it was after steps 4 to 6",
    ]
    choose(tab, picker, "as it was")

    tab.wait_for("return document.querySelector(arguments[0])?.src.includes('rank0.1')", FRAMES)
    wait_for_pages(tab, 1)
    assert "as it was then" in text_of_page(tab)


def test_two_runs_stand_beside_each_other(tab: Browser) -> None:
    click(tab, ".bar input")
    wait_for_pages(tab, 2)

    assert "98,765" in text_of_page(tab, 0)
    assert "98,765" not in text_of_page(tab, 1)
    left, right = (frame.rect for frame in tab.find_all(FRAMES))
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    click(tab, ".bar input")
    wait_for_pages(tab, 1)


def test_the_table_is_sorted_by_a_click(tab: Browser) -> None:
    click(tab, ".runs summary")
    order = ".runs tbody th"
    assert tab.texts(order) == ["fast", "slow"]
    workers = [text for text in tab.texts(".runs thead th")].index("workers") + 1
    head = f".runs thead th:nth-child({workers})"
    click(tab, f"{head} button")
    assert (tab.texts(order), tab.find(head).get_attribute("aria-sort")) == (["fast", "slow"], "descending")
    tab.press(Keys.ENTER)  # the button keeps the focus
    assert (tab.texts(order), tab.find(head).get_attribute("aria-sort")) == (["slow", "fast"], "ascending")


def test_light_and_dark_differ_and_both_can_be_read(tab: Browser) -> None:
    colours = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    light = tab.run(colours)
    tab.prefer("dark")
    dark = tab.run(colours)
    tab.prefer("light")

    assert light == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert dark == ["rgb(20, 24, 29)", "rgb(230, 237, 243)"]


def test_a_new_report_shows_up_at_the_same_place_and_nothing_moves_without_one(
    browser: Browser, tmp_path: Path
) -> None:
    long = report(notes=tuple(f"note {number}" for number in range(300)))
    with tensorboard(tmp_path) as started:
        browser.open(started.tab)
        browser.wait_for("return document.querySelector('.nothing')?.hidden === false")
        assert "There is no PerfWatch report" in browser.find(".nothing").text

        directory = store(tmp_path / "perfwatch", long)
        browser.wait_for("return document.querySelector(arguments[0]) !== null", FRAMES)
        with page(browser):
            browser.run("window.mark = 'the same'; scrollTo(0, 700)")
        browser.run("window.polls = performance.getEntriesByType('resource').length")
        browser.wait_for("return performance.getEntriesByType('resource').length >= window.polls + 2")
        with page(browser):
            assert browser.run("return [window.mark, scrollY]") == ["the same", 700]

        directory.write_report(replace(long, notes=("a finished window", *long.notes)))
        browser.wait_for("return document.querySelector(arguments[0]).src.includes('scroll=700')", FRAMES)
        wait_for_pages(browser, 1)
        assert "a finished window" in text_of_page(browser)
        with page(browser):
            assert browser.wait_for("return scrollY") == 700
        assert complaints(browser) == []


def test_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)> \"'&<script>alert(2)<!--"
    store(tmp_path / name.replace("/", "") / "perfwatch", hostile_report())
    broken = tmp_path / "<b>broken" / "perfwatch"
    broken.mkdir(parents=True)
    (broken / "report.json").write_text('{"<script>alert(3)</script>": 1, "schema_version": "<i>"}')
    with tensorboard(tmp_path) as started:
        browser.open(started.tab)
        browser.wait_for("return document.querySelector(arguments[0]) !== null", FRAMES)
        click(browser, ".runs summary")
        click(browser, ".bar input")
        wait_for_pages(browser, 2)

        titles = browser.texts(".runs tbody th")
        assert sorted(titles) == sorted([name, "<b>broken"])
        assert browser.run("return document.querySelectorAll('img, script:not([type=module]), b, i').length") == 0
        pages = [text_of_page(browser, number) for number in (0, 1)]
        assert any(HOSTILE.partition(" ")[0] in text for text in pages)
        assert complaints(browser) == []  # an alert would have made the browser refuse every command, too


def test_the_tab_works_below_a_path_prefix(browser: Browser, logdir: Path, stored: dict[str, Report]) -> None:
    with tensorboard(logdir, "--path_prefix=/some/where") as started:
        browser.open(f"{started.url}/#perfwatch")
        browser.wait_for("return document.querySelector('iframe') !== null")
        browser.driver.switch_to.frame(browser.find("iframe"))
        wait_for_pages(browser, 1)

        assert "98,765" in text_of_page(browser)
        assert complaints(browser) == []
        ours = [address for address in browser.requests() if "perfwatch" in address]
        assert len(ours) >= 4 and all(address.startswith(started.url) for address in ours)
        browser.driver.switch_to.default_content()


def test_a_tensorboard_that_has_ended_is_said(browser: Browser, tmp_path: Path) -> None:
    store(tmp_path / "perfwatch", report())
    with tensorboard(tmp_path) as started:
        browser.open(started.tab)
        wait_for_pages(browser, 1)
    said = browser.wait_for("return document.querySelector('[role=status]').textContent")

    assert said == "TensorBoard does not answer; what is shown is not up to date."
    assert len(browser.find_all(FRAMES)) == 1
