"""A run judged against the runs of a baseline, and by its findings: whether a change may pass.

Owns the judgement and its reasons. Knows nothing of files, exit codes or of how a reason is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lightning_perfwatch.comparison.comparison import is_same_run
from lightning_perfwatch.comparison.finding_changes import finding_changes
from lightning_perfwatch.comparison.pace import paced
from lightning_perfwatch.comparison.setup import SIZES, Difference, differences
from lightning_perfwatch.comparison.slowdown import Slowdown, slowdown_at_best, slowdown_at_pace, slowdown_of
from lightning_perfwatch.comparison.speed import MAIN_RATES, main_rate, rate_of, samples_of, timed_intervals
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rates import FEWEST_INTERVALS
from lightning_perfwatch.report import Report


@dataclass(frozen=True)
class Limits:
    """What a run may not do: be slower by more than ``max_slowdown_share``, have findings of the rules ``fail_on``,
    or any finding more severe than ``max_severity``. None and empty are no limit.
    """

    max_slowdown_share: float | None = 0.05
    fail_on: tuple[str, ...] = ()
    max_severity: Severity | None = None


@dataclass(frozen=True)
class Failure:
    """Why a run does not pass: ``slowdown``, or a ``finding`` with the ``limit`` that it breaks."""

    finding: Finding | None = None
    limit: str | None = None
    slowdown: Slowdown | None = None


@dataclass(frozen=True)
class Verdict:
    """What came of a check; a run passes if there are no ``failures``.

    ``slowdown`` is None where no baseline was asked, ``at_best``, that of the faster intervals, also where these can't
    be compared, for the reason ``why_not_at_best``, a clause, and where the pace of the machine is allowed for;
    ``why_not_paced`` is why it is not. ``is_in_baseline`` is True where this very run is one of the baseline's.
    ``doubts`` are settings that differ from the newest comparable run and have a speed of their own, ``new_findings``
    are those that it did not have, ``not_judged`` are rules of ``fail_on`` that could not judge, with the reason.
    """

    limits: Limits
    failures: tuple[Failure, ...] = ()
    slowdown: Slowdown | None = None
    at_best: Slowdown | None = None
    why_not_at_best: str | None = None
    why_not_paced: str | None = None
    is_in_baseline: bool = False
    doubts: tuple[Difference, ...] = ()
    new_findings: tuple[Finding, ...] = ()
    not_judged: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether nothing stands against the run."""
        return not self.failures

    @property
    def is_too_slow(self) -> bool:
        """Whether its speed stands against the run."""
        return any(failure.slowdown is not None for failure in self.failures)


class _Slowdowns(NamedTuple):
    slowdown: Slowdown | None = None
    at_best: Slowdown | None = None
    why_not_at_best: str | None = None
    why_not_paced: str | None = None


def judge(run: Report, baseline: Sequence[Report] | None, limits: Limits) -> Verdict:
    """Whether ``run`` keeps the ``limits``; ``baseline`` are earlier runs, oldest first, None to judge findings only.

    A run is too slow if it is slower than the baseline by more than ``max_slowdown_share`` and by more than the noise,
    as a whole or at its best: the former knows stalls, the latter is steadier on a machine that does other work too.
    Where enough runs know the machine's own pace, that is allowed for instead, and the run is judged as a whole. A run
    that is in the baseline is not judged by itself.

    Raises:
        ValueError: the speed can't be judged: it was not measured, or no run of the baseline is comparable.
    """
    failures = list(_by_findings(run, limits))
    not_judged = tuple((rule, run.skipped[rule]) for rule in limits.fail_on if rule in run.skipped)
    if baseline is None:
        return Verdict(limits, tuple(failures), not_judged=not_judged, findings=run.findings)
    require_speed(run)
    others = [other for other in comparable(run, baseline) if not is_same_run(other, run)]
    in_baseline = any(is_same_run(other, run) for other in baseline)
    if not others and not in_baseline:
        raise ValueError(_why_not(run, baseline))
    found = _slowdowns(run, others) if others else _Slowdowns()
    failures[:0] = _by_speed(found.slowdown, found.at_best, limits.max_slowdown_share)
    newest = others[-1] if others else run
    return Verdict(
        limits,
        tuple(failures),
        found.slowdown,
        found.at_best,
        found.why_not_at_best,
        found.why_not_paced,
        is_in_baseline=in_baseline,
        doubts=tuple(one for one in differences(newest, run) if one.doubt is not None),
        new_findings=tuple(one.finding for one in finding_changes(newest, run) if one.kind == "new"),
        not_judged=not_judged,
        findings=run.findings,
    )


def comparable(run: Report, baseline: Iterable[Report]) -> list[Report]:
    """Those runs of the baseline that did the same work on the same kind of machine."""
    return [other for other in baseline if not _obstacles(other, run)]


def _obstacles(other: Report, run: Report) -> list[Difference]:
    different = differences(other, run)
    in_steps = main_rate((other, run)) == "steps_per_s"
    return [one for one in different if one.is_obstacle or (in_steps and one.setting in SIZES)]


def _why_not(run: Report, baseline: Sequence[Report]) -> str:
    if not baseline:
        return "The baseline holds no run yet: add this one with --update."
    nearest = min((_obstacles(other, run) for other in reversed(baseline)), key=len)
    said = ", ".join(f"{one.setting} {one.before} there and {one.after} here" for one in nearest)
    return f"No run of the baseline is comparable with this one ({said}): add this one with --update."


def require_speed(run: Report) -> None:
    """Raise ValueError, with a sentence, where the speed of ``run`` is not known well enough to be judged."""
    if _rates(run):
        return
    place = run.directory or run.source or "The run"
    num_intervals = len(timed_intervals(run))
    if num_intervals >= FEWEST_INTERVALS:
        raise ValueError(
            f"{place} can't be judged: its intervals tell neither tokens nor samples nor steps per second."
        )
    raise ValueError(
        f"{place} can't be judged: it has {num_intervals} throughput intervals and {FEWEST_INTERVALS} are needed; "
        "train more steps, or set the Trainer's log_every_n_steps lower."
    )


def _rates(run: Report) -> list[str]:
    """The rates that it can be judged by, the best first."""
    known = (rate for rate in MAIN_RATES if rate_of(run, rate) is not None)
    return [rate for rate in known if len(samples_of(run, rate)[0]) >= FEWEST_INTERVALS]


def _slowdowns(run: Report, others: Sequence[Report]) -> _Slowdowns:
    """By the best rate that ``run`` shares with any of ``others``."""
    for rate in _rates(run):
        alike = [other for other in others if rate_of(other, rate) is not None]
        if rate == "steps_per_s":
            alike = [other for other in alike if all(one.setting not in SIZES for one in differences(other, run))]
        if alike:
            return _by_rate(run, alike, rate)
    raise ValueError("The run can't be judged: it shares no rate (tokens, samples or steps/s) with the baseline.")


def _by_rate(run: Report, others: Sequence[Report], rate: str) -> _Slowdowns:
    """At the machine's pace where enough runs know it, else as a whole and at its best."""
    try:
        return _Slowdowns(slowdown_at_pace(run, paced(run, others), rate))
    except ValueError as error:
        why_not_paced = str(error)
    except OverflowError:
        why_not_paced = "its figures are none that can be measured"
    slowdown = slowdown_of(run, others, rate)
    try:
        return _Slowdowns(slowdown, slowdown_at_best(run, others, rate), None, why_not_paced)
    except ValueError as error:
        return _Slowdowns(slowdown, None, str(error), why_not_paced)


def _by_speed(slowdown: Slowdown | None, at_best: Slowdown | None, most: float | None) -> list[Failure]:
    """One failure at most: a run that is too slow as a whole is so at its best too."""
    if slowdown is None or most is None:
        return []
    if slowdown.is_slower and slowdown.share > most:
        return [Failure(slowdown=slowdown)]
    if at_best is not None and at_best.is_slower and at_best.share > most and slowdown.share > 0:
        return [Failure(slowdown=at_best)]
    return []


def _by_findings(run: Report, limits: Limits) -> Iterable[Failure]:
    for finding in run.findings:
        if finding.rule in limits.fail_on:
            yield Failure(finding, f"--fail-on {finding.rule}")
        elif limits.max_severity is not None and finding.severity.rank > limits.max_severity.rank:
            yield Failure(finding, f"--max-severity {limits.max_severity.value}")
