from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lightning_perfwatch.comparison import Failure, Limits, Slowdown, Verdict
from lightning_perfwatch.comparison.setup import Difference
from lightning_perfwatch.finding import Severity, Where
from lightning_perfwatch.reporters.verdict import FORMATS, reasons, render
from tests.reporters.factories import HOSTILE, finding

SLOWER = Slowdown("tokens_per_s", 1100.0, 1000.0, 0.1, 0.06, 0.14, 10)
TOO_SLOW = Verdict(Limits(), (Failure(slowdown=SLOWER),), SLOWER)


def passed(share: float = 0.1, low_share: float = 0.06, high_share: float = 0.14) -> str:
    slowdown = replace(SLOWER, share=share, low_share=low_share, high_share=high_share)
    return render(Verdict(Limits(), (), slowdown), "text")


def test_a_run_that_is_too_slow_is_told_in_one_sentence() -> None:
    (reason,) = reasons(TOO_SLOW)

    assert reason == (
        "Too slow: the same work takes 10 % longer (tokens/s 1,000 against 1,100 in 10 runs; 99 % interval +6.0 % to "
        "+14 %), more than the 5 % allowed."
    )
    assert render(TOO_SLOW, "text") == f"PerfWatch check failed.\n  {reason}\n"


def test_a_run_that_is_too_slow_at_its_best_only_is_told_with_the_whole() -> None:
    at_best = replace(SLOWER, baseline=1210.0, now=1100.0, is_at_best=True)
    whole = replace(SLOWER, share=0.08, low_share=-0.02, high_share=0.18)
    verdict = Verdict(Limits(), (Failure(slowdown=at_best),), whole, at_best)

    assert render(verdict, "text").splitlines()[1:] == [
        "  Too slow: in its faster intervals the same work takes 10 % longer (tokens/s 1,100 against 1,210 in 10 runs, "
        "the rate that one interval in ten exceeds; 99 % interval +6.0 % to +14 %), more than the 5 % allowed.",
        "  Over all intervals the same work takes 8.0 % longer (tokens/s 1,000 against 1,100 in 10 runs; 99 % interval "
        "-2.0 % to +18 %): whatever else the machine did hides it there, and slows the faster intervals down least.",
    ]
    assert json.loads(render(verdict, "json"))["slowdown_at_best"]["is_at_best"] is True


def test_what_the_machine_takes_is_told() -> None:
    paced = replace(SLOWER, pace_share=0.12, expected_share=0.145)
    verdict = Verdict(Limits(), (Failure(slowdown=paced),), paced)

    assert render(verdict, "text").splitlines()[1] == (
        "  Too slow: the same work takes 10 % longer than expected at the machine's pace (tokens/s 1,000 against 1,100 "
        "in 10 runs; a fixed piece of work took 12 % longer, so 14 % longer was expected; 99 % interval +6.0 % to "
        "+14 %), more than the 5 % allowed."
    )
    faster = replace(SLOWER, pace_share=-0.12, expected_share=-0.02)
    assert "a fixed piece of work took 12 % less, so 2.0 % less was expected" in render(
        Verdict(Limits(), (), faster), "text"
    )
    assert "pace" not in render(Verdict(Limits(), (), replace(SLOWER, pace_share=0.1)), "text")
    excused_by_none = replace(TOO_SLOW, why_not_paced="3 runs know it")
    assert "The machine's own pace is not allowed for: 3 runs know it." in render(excused_by_none, "text")
    assert json.loads(render(excused_by_none, "json"))["not_judged_by_pace"] == "3 runs know it"


def test_a_run_that_passes_says_how_it_stands() -> None:
    assert "no measurable difference" in passed(share=0.01, low_share=-0.03, high_share=0.04)
    assert "beyond the noise, within the 5 % allowed" in passed(share=0.03, low_share=0.01)
    quiet = Verdict(Limits(0.095), (), replace(SLOWER, low_share=-0.01), replace(SLOWER, share=0.09, is_at_best=True))
    assert "takes 9.0 % longer" in render(quiet, "text")
    assert "the rate that one interval in ten exceeds" in render(quiet, "text")
    assert "beyond the noise, within the 9.5 % allowed" in render(quiet, "text")
    not_compared = Verdict(Limits(), (), replace(SLOWER, low_share=-0.01), why_not_at_best="there are few")
    assert "The faster intervals, which a busy machine disturbs least, are not compared: there are few." in render(
        not_compared, "text"
    )
    assert "within the noise, so it can't be called slower" in passed(low_share=-0.01)
    assert "add it to the baseline with --update" in passed(share=-0.2, low_share=-0.3, high_share=-0.1)
    alone = Verdict(Limits(), is_in_baseline=True)
    assert "this run is the only one of its kind in the baseline" in render(alone, "text")
    inside = render(Verdict(Limits(), (), replace(SLOWER, low_share=-0.01), is_in_baseline=True), "text")
    assert "in the baseline itself and was judged by the others" in inside


def test_a_finding_is_told_with_the_limit_that_it_breaks() -> None:
    failure = Failure(finding(rule="host-sync"), "--fail-on host-sync")

    assert reasons(Verdict(Limits(), (failure,))) == [
        "host-sync (warning, --fail-on host-sync): The step waits 12.3 ms of 40.0 ms for its batch. "
        "Set num_workers=4 on the training DataLoader."
    ]


def test_what_else_may_be_the_reason_is_told() -> None:
    verdict = replace(
        TOO_SLOW,
        doubts=(Difference("torch", "2.14", "2.15", "the versions have a speed of their own"),),
        new_findings=(finding(rule="gc-pause"),),
        not_judged=(("host-sync", "no step was audited"),),
    )
    shown = render(verdict, "text", ["Not added to the baseline."])

    for said in (
        "torch 2.14 before, 2.15 after",
        "New since the baseline: gc-pause.",
        "host-sync did not judge: no step",
    ):
        assert said in shown
    assert shown.endswith("  Not added to the baseline.\n")


def test_annotations_name_the_line_in_the_repository() -> None:
    found = finding(rule="host-sync", where=Where(file="/repo/src/train.py", line=12))
    shown = render(Verdict(Limits(), (Failure(found, "--fail-on host-sync"),)), "github", root=Path("/repo"))

    assert shown.startswith("::error file=src/train.py,line=12,title=PerfWatch host-sync::host-sync (warning")


def test_other_findings_are_warnings_and_a_pass_is_a_notice() -> None:
    findings = (finding(rule="host-sync"), finding(rule="gc-pause", severity=Severity.INFO))
    lines = render(Verdict(Limits(), findings=findings), "github").splitlines()

    assert [line.partition(" ")[0] for line in lines] == ["::warning", "::notice"]


def test_githubs_escapes_are_kept() -> None:
    """Of a message ``%``, CR and LF; in a property also ``:`` and ``,``, which end it."""
    found = finding(
        rule="a:b,c%d", summary="50 % of\r\nit, or: more.", where=Where(file="dir,x:y/100%.py", line=3)
    )  # fmt: skip
    (line,) = render(Verdict(Limits(), findings=(found,)), "github").splitlines()[:1]

    assert line.startswith(
        "::warning file=dir%2Cx%3Ay/100%25.py,line=3,title=PerfWatch a%3Ab%2Cc%25d::50 %25 of it, or: more."
    )


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_names_start_no_line_of_their_own(format_: str) -> None:
    found = finding(rule=HOSTILE, summary=f"x\n::error::{HOSTILE}", where=Where(file=HOSTILE, line=1))
    shown = render(Verdict(Limits(), (Failure(found, "--fail-on x"),), findings=(found,)), format_, [HOSTILE])

    assert "\x1b" not in shown
    assert "\n::error::" not in shown


def test_json_holds_figures_and_reasons() -> None:
    document = json.loads(render(TOO_SLOW, "json", ["a note"]))

    assert (document["ok"], document["slowdown"]["share"], document["notes"]) == (False, 0.1, ["a note"])
    assert document["failures"] == [{"reason": reasons(TOO_SLOW)[0], "rule": None, "limit": "--max-slowdown"}]


def test_an_unknown_format_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'github'"):
        render(TOO_SLOW, "githup")
