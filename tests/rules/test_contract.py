"""What holds for every rule there is."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.measurements import PHASES, StepTimes, SyncSites
from lightning_perfwatch.rules import Rule, all_rules
from tests.rules.factories import evidence, healthy_trace, hook_time, loader, on_gpu, step_times, sync_site

RULES = list(all_rules().values())
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
        assert set(kind.needs) <= {field.name for field in dataclasses.fields(Evidence)}

    def test_is_skipped_with_a_reason_when_nothing_was_measured(self, kind: type[Rule]) -> None:
        reason = kind().skip_reason(Evidence())
        assert reason
        assert not reason.endswith(".")

    def test_is_silent_on_a_healthy_run(self, kind: type[Rule]) -> None:
        assert list(kind().check(evidence(trace=healthy_trace()))) == []

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


def test_a_healthy_run_has_no_findings_and_no_skipped_rule() -> None:
    found = diagnose(evidence(trace=healthy_trace()))
    assert found.findings == ()
    assert found.skipped == {}


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
