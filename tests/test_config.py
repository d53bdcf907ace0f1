from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from lightning_perfwatch import PerfWatchConfig, Schedule, TraceOptions
from lightning_perfwatch.rules import Rule, rule_class
from lightning_perfwatch.rules.host_sync import HostSync


class Homemade(Rule):
    """A rule that this package does not have."""


def test_nothing_has_to_be_given() -> None:
    config = PerfWatchConfig()
    assert config.schedule == Schedule()
    assert config.trace == TraceOptions()
    assert config.records_on(0)
    assert not config.records_on(1)


def test_yaml_dict_and_dictconfig_say_the_same(tmp_path: Path) -> None:
    text = "schedule: {wait: 3, active: 2}\ntokens: input_ids\nranks: [0, 8]\nquiet: true\nignore: [slow-hook]\n"
    (tmp_path / "perfwatch.yaml").write_text(text)
    from_file = PerfWatchConfig.read(tmp_path / "perfwatch.yaml")
    assert from_file == PerfWatchConfig.read(str(tmp_path / "perfwatch.yaml"))
    assert from_file == PerfWatchConfig.read(OmegaConf.create(text))
    plain = OmegaConf.to_container(OmegaConf.create(text))
    assert from_file == PerfWatchConfig.read(plain)
    assert from_file.schedule == Schedule(wait=3, active=2)
    assert from_file.ranks == (0, 8)
    assert from_file.ignore == ("slow-hook",)


def test_flops_and_peak_are_numbers_or_a_function() -> None:
    config = PerfWatchConfig.read(OmegaConf.create("flops_per_batch: 6e12\npeak_tflops: 989"))
    assert config.flops_per_batch == 6e12
    assert config.peak_tflops == 989.0
    function = PerfWatchConfig.read({"flops_per_batch": len}).flops_per_batch
    assert function is len


def test_interpolations_are_resolved_and_targets_passed_over() -> None:
    config = OmegaConf.create(
        {"steps": 4, "perfwatch": {"_target_": "lightning_perfwatch.PerfWatch", "schedule": {"active": "${steps}"}}}
    )
    assert PerfWatchConfig.read(config.perfwatch).schedule.active == 4


def test_objects_survive_in_a_dict() -> None:
    config = PerfWatchConfig.read({"tokens": len, "schedule": Schedule(wait=1), "rules": [HostSync()]})
    assert config.tokens is len
    assert config.schedule == Schedule(wait=1)
    assert config.rules == (HostSync(),)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"shedule": {}}, "'shedule': did you mean 'schedule'"),
        ({"schedule": {"wormup": 3}}, "'wormup': did you mean 'warmup'"),
        ({"trace": {"max_mb": 3}}, "'max_mb': did you mean 'max_trace_mb'"),
        ({"schedule": {"wait": "soon"}}, "schedule.wait.*soon"),
        ({"schedule": {"wait": 1.5}}, "schedule.wait.*1.5"),
        ({"schedule": {"warmup": 0}}, "Schedule.warmup must be at least 1, got 0"),
        ({"schedule": {"active": "???"}}, "'schedule.active' is mandatory"),
        ({"schedule": 3}, "'schedule' must be a mapping, got 3"),
        ({"tokens": "???"}, "'tokens' is mandatory"),
        ({"tokens": 3}, "tokens must be .* got 3"),
        ({"dir": "${nowhere}"}, "'dir' can't be read: .*nowhere"),
        ({"flops_per_batch": "many"}, "flops_per_batch must be a positive number, a callable or None, got 'many'"),
        ({"flops_per_batch": 0}, "flops_per_batch must be .* got 0"),
        ({"flops_per_batch": True}, "flops_per_batch must be .* got True"),
        ({"peak_tflops": -1}, "peak_tflops must be a positive number or None, got -1"),
        ({"peak_tflops": "fast"}, "peak_tflops.*fast"),
        ({"quiet": "maybe"}, "quiet.*maybe"),
        ({"ranks": "rank1"}, "ranks must be .* got 'rank1'"),
        ({"ranks": [0, -1]}, "ranks must be "),
        ({"ignore": ["slow-hok"]}, "'slow-hok': did you mean 'slow-hook'"),
        ({"ignore": "slow-hook"}, "ignore"),
        ({"rules": {"host-sink": {}}}, "'host-sink': did you mean 'host-sync'"),
        ({"rules": {"host-sync": {"warn_share": 0.1}}}, "'warn_share': did you mean 'warning_share'"),
        ({"rules": {"host-sync": {"warning_share": "much"}}}, "host-sync.warning_share must be a number, got 'much'"),
        ({"rules": "host-sync"}, "rules must be"),
        ({"rules": [3]}, "rules must hold rules or rule ids, got 3"),
        ({"trace": {"max_trace_mb": 0}}, "max_trace_mb must be a positive number"),
        ([1, 2], "must be a mapping, got list"),
    ],
)
def test_a_wrong_setting_is_named(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        PerfWatchConfig.read(settings)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.yaml"):
        PerfWatchConfig.read(tmp_path / "nothing.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1,")
    with pytest.raises(ValueError, match=r"broken\.yaml are no YAML"):
        PerfWatchConfig.read(broken)
    broken.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ValueError, match=r"broken\.yaml"):
        PerfWatchConfig.read(broken)


def test_the_schema_refuses_what_it_does_not_know() -> None:
    schema = PerfWatchConfig.schema()
    assert schema.schedule.active == Schedule().active
    with pytest.raises(Exception, match="wormup"):
        OmegaConf.merge(schema, {"schedule": {"wormup": 1}})
    with pytest.raises(Exception, match=r"schedule\.wait"):
        OmegaConf.merge(schema, {"schedule": {"wait": "x"}})
    assert PerfWatchConfig.read(OmegaConf.merge(schema, {"schedule": {"wait": 2}})).schedule == Schedule(wait=2)


def test_ranks_choose_who_records() -> None:
    assert [PerfWatchConfig(ranks="all").records_on(rank) for rank in (0, 1)] == [True, True]
    assert [PerfWatchConfig(ranks=(1,)).records_on(rank) for rank in (0, 1)] == [False, True]


def test_the_child_is_told_rules_and_thresholds() -> None:
    assert PerfWatchConfig().child_arguments() == []
    arguments = PerfWatchConfig(ignore=("slow-hook",), rules=(HostSync(warning_share=0.5),)).child_arguments()
    assert arguments is not None
    assert arguments[:4] == ["--ignore", "slow-hook", "--rule", "host-sync"]
    assert "host-sync.warning_share=0.5" in arguments


def test_the_child_is_not_asked_for_rules_it_does_not_have() -> None:
    assert PerfWatchConfig(rules=(Homemade(),)).child_arguments() is None


def test_rules_are_taken_as_ids_classes_and_objects() -> None:
    config = PerfWatchConfig(rules=["host-sync", rule_class("slow-hook"), HostSync(max_sites=1)])  # type: ignore[arg-type]
    assert config.rules is not None
    assert [rule.id() for rule in config.rules] == ["host-sync", "slow-hook", "host-sync"]


@pytest.mark.parametrize("share", [0, -0.1, 1.5, True, "1 %", float("nan")])
def test_a_share_of_the_training_time_that_makes_no_sense_is_refused(share: Any) -> None:
    with pytest.raises(ValueError, match="max_overhead_share must be a share above 0"):
        PerfWatchConfig(max_overhead_share=share)


def test_the_share_of_the_training_time_is_read_and_can_be_without_limit() -> None:
    assert PerfWatchConfig.read({}).max_overhead_share == 0.01
    assert PerfWatchConfig.read({"max_overhead_share": 0.05}).max_overhead_share == 0.05
    assert PerfWatchConfig.read({"max_overhead_share": None}).max_overhead_share is None
