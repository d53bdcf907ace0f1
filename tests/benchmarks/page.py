"""How large the report page is and how soon it is on the screen, with a timeline of as many events as it may have.

    python -m tests.benchmarks.page

Ends with 1 if a target is missed, and with 2 where there is no browser.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from lightning_perfwatch.reporters import render
from lightning_perfwatch.trace.timeline import MOST_EVENTS
from tests.benchmarks.measuring import Figure, median, say, say_figures
from tests.browser import chromium, why_missing
from tests.reporters.factories import drawn, long_timeline

NUM_ROUNDS = 5
MOST_FIRST_PAINT_S = 2.0
MOST_PAGE_MB = 6.0
_PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_DRAWN = "return performance.getEntriesByName('perfwatch-drawn')[0]?.startTime"


def main() -> int:
    """Measure, print and compare."""
    parser = argparse.ArgumentParser(description="Measure the report page's size and first paint.")
    parser.add_argument("--events", type=int, default=MOST_EVENTS, help="events of the timeline (default: %(default)s)")
    num_events = parser.parse_args().events
    if reason := why_missing():
        say(reason)
        return 2
    report = drawn(timeline=long_timeline(num_events))
    render(report, "html")  # imports Bokeh
    begin_s = time.perf_counter()
    page = render(report, "html")
    render_s = time.perf_counter() - begin_s
    words_s, charts_s = _paints(page)
    say(f"The report page with a timeline of {num_events:,} events; medians of {NUM_ROUNDS} openings")
    figures = [
        Figure("size of the page", len(page.encode()) / 1e6, MOST_PAGE_MB, "MB", at_least=False),
        Figure("words on the screen after", words_s, MOST_FIRST_PAINT_S, "s", at_least=False),
        Figure("charts on the screen after", charts_s, MOST_FIRST_PAINT_S, "s", at_least=False),
    ]
    say_figures(figures)
    say(f"  rendered in {render_s:.2f} s")
    return 0 if all(figure.is_reached for figure in figures) else 1


def _paints(page: str) -> tuple[float, float]:
    """Seconds from opening the page until its words and its charts are on the screen, medians."""
    words_s, charts_s = [], []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder, "report.html")
        file.write_text(page, encoding="utf-8")
        for _ in range(NUM_ROUNDS):
            browser.open(file)
            charts_s.append(browser.wait_for(_DRAWN) / 1e3)
            words_s.append(browser.run(_PAINTED) / 1e3)
    return median(words_s), median(charts_s)


if __name__ == "__main__":
    sys.exit(main())
