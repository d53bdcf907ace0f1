"""The report as one self-contained page: its style, its scripts and its charts' data in one file, nothing loaded.

Owns the template's variables and what the page is allowed to do. Knows no rule by name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import page
from lightning_perfwatch.reporters.measured import measured
from lightning_perfwatch.reporters.outline import outline
from lightning_perfwatch.reporters.page_template import render_page, source


def render(report: Report) -> str:
    """``report`` as an HTML page."""
    said = outline(report)
    tiles, speed = page.speed(said.speed)
    throughput, timeline = _throughput(report), _timeline(report)
    scripts = list(_scripts(bool(throughput or timeline)))
    return render_page(
        "report.html.j2",
        said=said,
        tiles=tiles,
        speed=speed,
        verdict=page.verdict(said),
        cards=page.finding_cards(report, said),
        operations=page.operations(report.top_ops),
        ranks=page.ranks(report.ranks),
        throughput=throughput,
        timeline=timeline,
        timeline_is_missed=report.window_s is not None and timeline is None,
        measured=tuple(measured(report)),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
    )


def _throughput(report: Report) -> dict[str, Any] | None:
    """The chart of the rates with its words; None where too little was measured to draw it."""
    from lightning_perfwatch.reporters import throughput_chart

    shown = throughput_chart.rates(report)
    if shown is None:
        return None
    of_run = {
        "tokens/s": report.throughput.tokens_per_s_rank,
        "samples/s": report.throughput.samples_per_s_rank,
        "steps/s": report.throughput.steps_per_s,
    }[shown.name]
    return {
        "name": shown.name,
        "of_this_rank": len(report.ranks) > 1,
        "words": throughput_chart.in_words(shown, report.marks),
        "kinds": throughput_chart.kinds(report.marks),
        "of_run": of_run,
        "chart": throughput_chart.throughput_chart(shown, report.marks, of_run),
    }


def _timeline(report: Report) -> dict[str, Any] | None:
    """The chart of one step with its words; None without a timeline, or one without events."""
    timeline = report.timeline
    if timeline is None or not any(lane.name_ids for lane in timeline.lanes):
        return None
    from lightning_perfwatch.reporters import timeline_chart

    names = timeline_chart.shown_names(timeline)
    return {
        "words": timeline_chart.in_words(timeline),
        "lanes": page.lanes(timeline_chart.summaries(timeline, names)),
        "chart": timeline_chart.timeline_chart(timeline, names),
        "texts": timeline_chart.texts(timeline, names),
    }


def _scripts(with_charts: bool) -> Iterable[str]:
    if with_charts:
        from lightning_perfwatch.reporters.charts import library

        yield library()
        yield source("charts.js")
    yield source("page.js")


def _policy(scripts: Iterable[str]) -> str:
    """A content security policy: exactly these scripts, styles of the page itself, and no network."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
