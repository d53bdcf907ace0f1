"""The verdict of a check as text, JSON or annotations of a GitHub workflow.

Owns the wording of reasons and GitHub's escapes. Decides nothing and knows no rule by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightning_perfwatch.comparison import Failure, Slowdown, Verdict
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.reporters.comparison.outline import doubt, percent_change, rate_name
from lightning_perfwatch.reporters.wording import amount, clean, percent
from lightning_perfwatch.rules import unknown_name

FORMATS = ("text", "github", "json")
"""What ``perfwatch check --format`` takes."""

SCHEMA_VERSION = 1

_SMALL_SHARE = 0.005


def render(verdict: Verdict, format: str, notes: Iterable[str] = (), root: Path | None = None) -> str:
    """``verdict`` in one of :data:`FORMATS`; ``notes`` are said after it.

    Annotations name files from ``root`` on, as GitHub wants them from the repository's.

    Raises:
        ValueError: there is no such format.
    """
    said = [clean(note) for note in (*_notes(verdict), *notes)]
    if format == "text":
        lines = [_headline(verdict), *(f"  {reason}" for reason in reasons(verdict)), *(f"  {note}" for note in said)]
        return "".join(f"{line}\n" for line in lines)
    if format == "github":
        return "".join(f"{line}\n" for line in _annotations(verdict, said, root))
    if format == "json":
        return json.dumps(_document(verdict, said), indent=2) + "\n"
    raise ValueError(unknown_name("format", format, FORMATS))


def reasons(verdict: Verdict) -> list[str]:
    """Why the run does not pass, a sentence each; empty for one that passes."""
    return [_reason(failure, verdict) for failure in verdict.failures]


def _headline(verdict: Verdict) -> str:
    word = "ok" if verdict.passes else "failed"
    speed = _speed(verdict)
    return f"PerfWatch check {word}: {speed}" if speed else f"PerfWatch check {word}."


def _speed(verdict: Verdict) -> str:
    """What is to be said of the speed where it is no reason to fail."""
    slowdown, at_best = verdict.slowdown, verdict.at_best
    if slowdown is None:
        return "this run is the only one of its kind in the baseline." if verdict.is_in_baseline else ""
    if verdict.is_too_slow:
        return ""
    limit = verdict.limits.max_slowdown_share
    if slowdown.is_faster:
        return f"{_told(slowdown)}, beyond the noise; add it to the baseline with --update."
    for one in (slowdown, at_best):
        if one is not None and one.is_slower and slowdown.share > 0:
            allowed = "" if limit is None else f", within the {_limit(limit)} allowed"
            return f"{_told(one)}, beyond the noise{allowed}."
    if limit is not None and slowdown.share > limit:
        return f"{_told(slowdown)}, within the noise, so it can't be called slower."
    return f"{_told(slowdown)}: no measurable difference."


def _told(slowdown: Slowdown) -> str:
    """The change of time: rates are shown beside it, but a rate that is halved takes twice the time."""
    change = f"{percent(abs(slowdown.share))} {'longer' if slowdown.share >= 0 else 'less time'}"
    runs = "1 run" if slowdown.num_runs == 1 else f"{slowdown.num_runs} runs"
    rate = f"{rate_name(slowdown.rate)} {amount(slowdown.now)} against {amount(slowdown.baseline)} in {runs}"
    low, high = percent_change(1 + slowdown.low_share), percent_change(1 + slowdown.high_share)
    where = "in its faster intervals " if slowdown.is_at_best else ""
    which = ", the rate that one interval in ten exceeds" if slowdown.is_at_best else ""
    than, why = _by_pace(slowdown)
    level = f"{100 * slowdown.level:g} %"
    return f"{where}the same work takes {change}{than} ({rate}{which}{why}; {level} interval {low} to {high})"


def _by_pace(slowdown: Slowdown) -> tuple[str, str]:
    """What the change is measured against, and what the machine lets expect; empty where that is little."""
    pace_share, expected_share = slowdown.pace_share, slowdown.expected_share
    if pace_share is None or abs(expected_share) < _SMALL_SHARE:
        return "", ""
    said = [f"{percent(abs(share))} {'longer' if share > 0 else 'less'}" for share in (pace_share, expected_share)]
    return " than expected at the machine's pace", f"; a fixed piece of work took {said[0]}, so {said[1]} was expected"


def _limit(share: float) -> str:
    """As the user gave it."""
    return f"{100 * share:g} %"


def _reason(failure: Failure, verdict: Verdict) -> str:
    finding, slowdown = failure.finding, failure.slowdown
    if finding is not None:
        return clean(f"{finding.rule} ({finding.severity.value}, {failure.limit}): {finding.summary} {finding.advice}")
    assert slowdown is not None
    return f"Too slow: {_told(slowdown)}, more than the {_limit(verdict.limits.max_slowdown_share or 0.0)} allowed."


def _notes(verdict: Verdict) -> Iterable[str]:
    yield from (doubt(one) for one in verdict.doubts)
    for rule, why in verdict.not_judged:
        yield f"{rule} did not judge: {why}."
    if verdict.slowdown is not None and verdict.is_in_baseline:
        yield "This run is in the baseline itself and was judged by the others."
    if verdict.is_too_slow:
        if verdict.slowdown is not None and not verdict.slowdown.is_slower:
            yield (
                f"Over all intervals {_told(verdict.slowdown)}: whatever else the machine did hides it there, and "
                "slows the faster intervals down least."
            )
        if verdict.why_not_paced is not None:
            yield f"The machine's own pace is not allowed for: {verdict.why_not_paced}."
        for finding in verdict.new_findings:
            yield f"New since the baseline: {finding.rule}. {finding.summary}"
    elif verdict.why_not_at_best is not None and verdict.slowdown is not None and not verdict.slowdown.is_slower:
        yield f"The faster intervals, which a busy machine disturbs least, are not compared: {verdict.why_not_at_best}."


def _annotations(verdict: Verdict, notes: Iterable[str], root: Path | None) -> Iterable[str]:
    for failure, reason in zip(verdict.failures, reasons(verdict), strict=True):
        yield _annotation("error", reason, failure.finding, root)
    failed = [failure.finding for failure in verdict.failures]
    for finding in verdict.findings:
        if finding.severity is not Severity.INFO and not any(finding is other for other in failed):
            yield _annotation("warning", clean(f"{finding.summary} {finding.advice}"), finding, root)
    for note in notes:
        yield _annotation("notice", note, None, root)
    if verdict.passes:
        yield _annotation("notice", _headline(verdict), None, root)


def _annotation(kind: str, message: str, finding: Finding | None, root: Path | None) -> str:
    properties = {"title": "PerfWatch" if finding is None else f"PerfWatch {clean(finding.rule)}"}
    if finding is not None and finding.where.file:
        properties = {"file": _from_root(finding.where.file, root), **properties}
        if finding.where.line:
            properties = {"file": properties["file"], "line": str(finding.where.line), "title": properties["title"]}
    said = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{kind} {said}::{_escape(message)}"


def _from_root(file: str, root: Path | None) -> str:
    path = Path(file)
    if root is None or not path.is_relative_to(root):
        return clean(file)
    return clean(path.relative_to(root).as_posix())


def _escape(text: str) -> str:
    """GitHub's escapes for the message of a workflow command (actions/toolkit, ``command.ts``)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _document(verdict: Verdict, notes: Iterable[str]) -> dict[str, Any]:
    slowdown = verdict.slowdown
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": verdict.passes,
        "failures": [
            {
                "reason": reason,
                "rule": None if failure.finding is None else failure.finding.rule,
                "limit": failure.limit or "--max-slowdown",
            }
            for failure, reason in zip(verdict.failures, reasons(verdict), strict=True)
        ],
        "slowdown": None if slowdown is None else vars(slowdown),
        "slowdown_at_best": None if verdict.at_best is None else vars(verdict.at_best),
        "not_judged_at_best": verdict.why_not_at_best,
        "not_judged_by_pace": verdict.why_not_paced,
        "is_in_baseline": verdict.is_in_baseline,
        "max_slowdown_share": verdict.limits.max_slowdown_share,
        "notes": list(notes),
    }
