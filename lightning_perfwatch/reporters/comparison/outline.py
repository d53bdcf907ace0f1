"""What a comparison says, in words and in order, before it is laid out.

Owns the choice and the wording of the contents, so that text, Markdown and page can't disagree. Knows no rule by name
and nothing of layout. Every text in it is one clean line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lightning_perfwatch.comparison import Answer, Change, Comparison, Difference, FindingChange, Pair, Side
from lightning_perfwatch.comparison.setup import SIZES
from lightning_perfwatch.finding import Finding
from lightning_perfwatch.rates import FEWEST_INTERVALS
from lightning_perfwatch.reporters.wording import NOT_MEASURED, amount, clean, duration, label, percent

_NUM_OPERATIONS = 8
_KINDS = {"gone": "gone", "new": "new", "moved": "changed", "kept": "as before", "not_judged": "not judged"}
_RATES = {"nonpadding_tokens_per_s": "non-padding tokens/s"}


@dataclass(frozen=True)
class Row:
    """A figure before and after, and its change."""

    name: str
    before: str
    after: str
    change: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a title; ``of`` says what a row is of."""

    title: str
    of: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Card:
    """What became of a finding; ``summary``, ``place`` and ``advice`` are empty where they no longer matter."""

    kind: str
    rule: str
    severity: str
    change: str
    summary: str
    place: str
    advice: str


@dataclass(frozen=True)
class Outline:
    """The contents of a comparison; an empty part is left out. ``doubts`` say why figures are no measure of each other.

    ``tone`` is ``good``, ``bad`` or ``even``, for colours.
    """

    verdict: str
    tone: str
    before: str
    after: str
    doubts: tuple[str, ...]
    tables: tuple[Table, ...]
    findings: tuple[Card, ...]
    no_findings: str | None
    settings: Table | None
    notes: tuple[str, ...]


def outline(comparison: Comparison) -> Outline:
    """What ``comparison`` says, in words."""
    tables = (
        Table("speed", "", tuple(_speed(comparison))),
        Table("the mean step", "part", _parts(comparison.phases, "of the step", label)),
        Table(
            "slowest operations (self time per step)",
            "operation",
            _parts(comparison.operations[:_NUM_OPERATIONS], "of the window", clean),
        ),
    )
    different = tuple(Row(clean(one.setting), _value(one.before), _value(one.after)) for one in comparison.settings)
    return Outline(
        verdict=verdict(comparison),
        tone="even" if _obstacles(comparison) else _tone(comparison.main),
        before=_side(comparison.before),
        after=_side(comparison.after),
        doubts=tuple(doubt(one) for one in comparison.doubts),
        tables=tuple(table for table in tables if table.rows),
        findings=tuple(_card(one) for one in comparison.findings),
        no_findings=None if comparison.findings else "No finding before and none after.",
        settings=Table("settings that differ", "setting", different) if different else None,
        notes=tuple(_notes(comparison)),
    )


def verdict(comparison: Comparison) -> str:
    """What came of it, in one sentence; what is not comparable is said first."""
    obstacles = ", ".join(_obstacles(comparison))
    return f"Not comparable ({obstacles}): {_said(comparison)}" if obstacles else _said(comparison)


def _obstacles(comparison: Comparison) -> list[str]:
    return [clean(one.setting) for one in comparison.settings if one.is_obstacle]


def _said(comparison: Comparison) -> str:
    change = comparison.main
    if comparison.is_same_run:
        return "The same run twice: exactly no difference."
    if change is None or change.ratio is None:
        return "Whether it is faster can't be told: no rate (tokens, samples or steps/s) is known of both."
    if change.answer is Answer.NOT_TOLD:
        few = " and ".join(str(number) for number in change.num_intervals)
        told = f"{few} throughput intervals are too few, {FEWEST_INTERVALS} of each are needed"
        return f"Whether {rate_name(change.rate)} changed can't be told: {told} ({percent_change(change.ratio)})."
    between = _between(change)
    if change.answer is Answer.NO_DIFFERENCE:
        told = f"{percent_change(change.ratio)}, and the {between} holds 0"
        return f"No measurable difference in {rate_name(change.rate)}: {told}."
    said = f"{faster(change.ratio)} in {rate_name(change.rate)} ({between})"
    if change.answer is Answer.SMALL:
        return f"{said}, which two runs of the same code may differ by too: repeat both before you trust it."
    return f"{said}."


def rate_name(rate: str) -> str:
    """A rate as a reader calls it: ``tokens_per_s`` is "tokens/s"."""
    return _RATES.get(rate) or f"{rate.removesuffix('_per_s')}/s"


def percent_change(ratio: float) -> str:
    """A ratio as a change with its sign: "+81 %", "-3.2 %", "0 %"; from twice on "2.4x"."""
    percentage = (ratio - 1.0) * 100
    if percentage >= 100:
        return f"{ratio:,.2f}x" if ratio < 10 else f"{ratio:,.0f}x"
    text = f"{percentage:+.1f} %" if abs(percentage) < 9.95 else f"{percentage:+.0f} %"
    return "0 %" if text in ("+0.0 %", "-0.0 %") else text


def faster(ratio: float) -> str:
    """A ratio of rates in words: "12 % faster", "3.0 % slower", "2.4x as fast"."""
    if ratio >= 2:
        return f"{percent_change(ratio)} as fast"
    return f"{percent(abs(ratio - 1.0))} {'faster' if ratio >= 1 else 'slower'}"


def doubt(one: Difference) -> str:
    """Why figures are no measure of each other, in one sentence."""
    kind = "Not comparable" if one.is_obstacle else "Compare with care"
    return clean(f"{kind}: {one.doubt} ({one.setting} {_value(one.before)} before, {_value(one.after)} after).")


def _between(change: Change) -> str:
    low, high = change.low or 1.0, change.high or 1.0
    return f"95 % interval {percent_change(low)} to {percent_change(high)}"


def _tone(change: Change | None) -> str:
    tones = {Answer.FASTER: "good", Answer.SLOWER: "bad"}
    return "even" if change is None else tones.get(change.answer, "even")


def _side(side: Side) -> str:
    steps = None if side.num_steps is None else f"{side.num_steps} steps measured"
    return clean(", ".join(part for part in (side.place, side.model, side.device, steps) if part)) or "a report"


def _speed(comparison: Comparison) -> Iterable[Row]:
    rates = {change.rate: (change.before, change.after) for change in comparison.speed}
    for change in comparison.speed:
        if change.rate == "nonpadding_tokens_per_s" and rates[change.rate] == rates.get("tokens_per_s"):
            continue  # there is no padding
        yield Row(rate_name(change.rate), _rate(change.before), _rate(change.after), _change(change))
    for pair in comparison.step_time_s:
        yield _row(f"step time {pair.name}", pair, duration)
    if comparison.goodput_share is not None:
        yield _row("goodput", comparison.goodput_share, percent, with_change=False)


def _change(change: Change) -> str:
    if change.ratio is None:
        return ""
    if change.answer is Answer.SAME_RUN:
        return "none"
    if change.low is None or change.high is None:
        return f"{percent_change(change.ratio)} (too few intervals)"
    said = f"{percent_change(change.ratio)} (95 %: {percent_change(change.low)} to {percent_change(change.high)})"
    return f"{said}, no measurable difference" if change.answer is Answer.NO_DIFFERENCE else said


def _row(name: str, pair: Pair, write: Callable[[float], str], with_change: bool = True) -> Row:
    before, after = (NOT_MEASURED if value is None else write(value) for value in (pair.before, pair.after))
    return Row(name, before, after, "" if pair.ratio is None or not with_change else percent_change(pair.ratio))


def _parts(pairs: Sequence[Pair], of: str, name: Callable[[str], str]) -> tuple[Row, ...]:
    return tuple(
        Row(
            name(pair.name),
            _part(pair.before, pair.share_before),
            _part(pair.after, pair.share_after),
            _points(pair.share_before, pair.share_after, of),
        )
        for pair in pairs
    )


def _part(seconds: float | None, share: float | None) -> str:
    if seconds is None:
        return "-" if share is None else percent(share)
    return duration(seconds) if share is None else f"{duration(seconds)} ({percent(share)})"


def _points(before: float | None, after: float | None, of: str) -> str:
    if before is None or after is None:
        return "not among the slowest before" if before is None else "not among the slowest after"
    points = (after - before) * 100
    return "" if abs(points) < 0.5 else f"{points:+.0f} points {of}"


def _card(one: FindingChange) -> Card:
    finding = one.finding
    is_gone = one.after is None
    return Card(
        kind=_KINDS[one.kind],
        rule=clean(finding.rule),
        severity=finding.severity.value,
        change=clean(_finding_change(one)),
        summary="" if is_gone else clean(finding.summary),
        place=clean(str(finding.where)),
        advice="" if is_gone else clean(finding.advice),
    )


def _finding_change(one: FindingChange) -> str:
    if one.kind == "not_judged":
        when = "before" if one.before is None else "after"
        cost = _cost(one.finding)
        return f"{cost} {'after' if one.before is None else 'before'}; the rule did not judge {when}: {one.reason}"
    if one.before is None or one.after is None:
        return f"{_cost(one.finding)} {'after' if one.before is None else 'before'}"
    costs = _cost(one.before), _cost(one.after)
    said = [costs[0] if costs[0] == costs[1] else f"{costs[0]} before, {costs[1]} after"]
    if one.before.severity is not one.after.severity:
        said.append(f"{one.before.severity.value} before")
    if one.rank_before != one.rank_after:
        said.append(f"place {one.rank_before} in the list before, {one.rank_after} after")
    return "; ".join(said)


def _cost(finding: Finding) -> str:
    return f"cost {NOT_MEASURED}" if finding.share is None else f"{percent(finding.share)} of the {finding.share_of}"


def _notes(comparison: Comparison) -> Iterable[str]:
    rate = comparison.main_rate
    if any(one.setting in SIZES for one in comparison.settings) and rate is not None:
        if rate == "steps_per_s":
            yield "Steps are of another size, and neither tokens nor samples are known: this is no measure of speed."
        else:
            yield (
                f"Steps are of another size: {rate_name(rate)} tells what became of the speed, while steps/s and the "
                "step time are of other steps."
            )
    if comparison.main is not None and comparison.main.low is not None and not comparison.is_same_run:
        yield (
            "The intervals hold the noise within the two runs (bootstrap over blocks of throughput intervals) and the "
            "2 % (standard deviation) that runs of the same code usually differ by."
        )


def _rate(value: float | None) -> str:
    return NOT_MEASURED if value is None else amount(value)


def _value(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}".removesuffix(".0")
    return clean(str(value))
