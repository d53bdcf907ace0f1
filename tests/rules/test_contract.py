"""What holds for every rule there is."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.measurements import PHASES, StepTimes
from lightning_perfwatch.rules import Rule, all_rules
from lightning_perfwatch.sync_sites import SyncSites
from lightning_perfwatch.trace import Trace
from tests.rules.factories import evidence, healthy_trace, hook_time, loader, on_gpu, step_times, sync_site
from tests.trace.factories import call, kernel, op, step, trace

RULES = list(all_rules().values())
TRACES = {
    "nothing but an event": trace(op(0, 0)),
    "steps of no length": trace(step(1, 0, 0), step(2, 0, 0), op(0, 0), kernel(0, 0, correlation=1), call(0, 0)),
    "a device without calls": trace(step(1, 0, 100), kernel(1, 99)),
    "a busy device": trace(
        *(step(number, 100 * number, 100) for number in range(3)),
        *(call(100 * number + 1, 2, correlation=number + 1) for number in range(3)),
        *(kernel(100 * number + 3, 100, correlation=number + 1) for number in range(3)),
    ),
    "a busy host": trace(*(step(number, 100 * number, 100) for number in range(3)), op(0, 300)),
}
PAGE_PARTS = ("What it is:", "Why it costs:", "How it is measured:", "Fix:", "Silent when:")


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.id())
class TestEveryRule:
    def test_has_a_page_with_all_parts_in_their_order(self, kind: type[Rule]) -> None:
        page = inspect.getdoc(kind) or ""
        positions = [page.find(part) for part in PAGE_PARTS]
        assert -1 not in positions
        assert positions == sorted(positions)
        assert page.splitlines()[0].endswith(".")

    def test_is_a_frozen_dataclass_of_numbers(self, kind: type[Rule]) -> None:
        rule = kind()
        assert dataclasses.is_dataclass(rule)
        assert all(isinstance(getattr(rule, field.name), (int, float)) for field in dataclasses.fields(rule))
        with pytest.raises(dataclasses.FrozenInstanceError):
            rule.anything = 1  # type: ignore[attr-defined]

    def test_needs_evidence_that_exists(self, kind: type[Rule]) -> None:
        assert {*kind.needs, *kind.needs_any} <= {field.name for field in dataclasses.fields(Evidence)}
        assert kind.needs or kind.needs_any

    def test_is_no_symptom_of_its_own_symptoms(self, kind: type[Rule]) -> None:
        rules = all_rules()
        assert kind.id() not in kind.symptom_of
        for cause in kind.symptom_of:
            assert cause not in rules or kind.id() not in rules[cause].symptom_of

    def test_is_skipped_with_a_reason_when_nothing_was_measured(self, kind: type[Rule]) -> None:
        reason = kind().skip_reason(Evidence())
        assert reason
        assert not reason.endswith(".")

    def test_is_silent_on_a_healthy_run(self, kind: type[Rule]) -> None:
        assert diagnose(evidence(), [kind()]).findings == ()
        assert diagnose(evidence(trace=healthy_trace()), [kind()]).findings == ()

    @pytest.mark.parametrize("recorded", TRACES.values(), ids=TRACES.keys())
    def test_survives_any_trace_and_is_silent_where_it_shows_nothing(self, kind: type[Rule], recorded: Trace) -> None:
        bare = diagnose(Evidence(trace=recorded, missing=TRACE_ALONE), [kind()])
        live = diagnose(evidence(trace=recorded), [kind()])
        for found in (bare, live):
            assert found.findings == ()
            assert not any("failed" in reason for reason in found.skipped.values())

    def test_survives_steps_of_no_length(self, kind: type[Rule]) -> None:
        nothing = StepTimes(np.zeros((5, len(PHASES))))
        found = diagnose(
            evidence(steps=nothing, syncs=SyncSites(2, (sync_site(),)), hooks=(hook_time(s_per_step=1.0),))
        )
        assert not any("failed" in reason for reason in found.skipped.values())

    def test_survives_absurd_values(self, kind: type[Rule]) -> None:
        absurd = StepTimes(np.full((5, len(PHASES)), 1e12))
        found = diagnose(evidence(steps=absurd, loader=loader(num_workers=10_000), run=on_gpu(num_cpus=1)), [kind()])
        assert not any("failed" in reason for reason in found.skipped.values())


def test_ids_are_the_names_of_the_modules() -> None:
    assert {"dataloader-starvation", "host-sync", "slow-hook"} <= set(all_rules())
    assert all(kind.__module__.endswith(rule_id.replace("-", "_")) for rule_id, kind in all_rules().items())


def test_a_healthy_run_has_no_findings_and_skips_what_needs_a_trace_or_other_ranks() -> None:
    found = diagnose(evidence())
    assert found.findings == ()
    assert set(found.skipped.values()) <= {"no trace was recorded", "one process tells nothing of the others"}


def test_findings_say_one_sentence_and_one_advice() -> None:
    ill = evidence(
        steps=step_times(data_wait=100.0, callbacks=50.0),
        syncs=SyncSites(2, (sync_site(),)),
        hooks=(hook_time(s_per_step=0.05),),
    )
    findings = diagnose(ill).findings
    assert [finding.rule for finding in findings] == ["dataloader-starvation", "slow-hook", "host-sync"]
    for finding in findings:
        assert finding.summary.endswith(".")
        assert finding.advice.endswith(".")
        assert "\n" not in finding.summary + finding.advice
