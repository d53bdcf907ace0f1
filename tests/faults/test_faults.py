"""The suite's cases are sound, and a few of them are run: each fault found first, the healthy run silent.

All of them, with their targets: ``python -m tests.benchmarks.faults``.
"""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from lightning_perfwatch.rules import all_rules
from lightning_perfwatch.rules.memory_growth import MemoryGrowth
from tests.benchmarks import faults
from tests.faults.case import Case, unknown_rules
from tests.faults.healthy import HEALTHY
from tests.faults.judging import judge
from tests.faults.planted import PLANTED
from tests.faults.recorded import RECORDINGS
from tests.faults.running import ROOT, train

CASES = (*HEALTHY, *PLANTED)
QUICK = [case for case in CASES if case.is_quick]
FEW_STEPS = 36  # as many as give a profiled window and some steady steps beside it
ONLY_ON_A_DEVICE = {
    "accelerator-unused",
    "allocator-retries",
    "conv-layout",
    "device-copy",
    "memory-pressure",
    "throttling",
    "unaligned-matmul",
    "underfilled-device",
    "unpinned-copy",
}


def test_the_suite_is_as_large_as_it_says() -> None:
    assert len(PLANTED) >= 40
    assert len(HEALTHY) >= 15
    assert sum(case.fix is not None for case in PLANTED) >= 15
    assert len({case.name for case in CASES}) == len(CASES)


def test_healthy_cases_name_no_rule_and_planted_ones_name_one() -> None:
    assert {case.rule for case in HEALTHY} == {None}
    assert None not in {case.rule for case in PLANTED}


def test_every_rule_that_a_case_names_exists() -> None:
    assert unknown_rules((*CASES, *RECORDINGS)) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_example_knows_every_setting_of_a_case_and_of_its_fix(case: Case) -> None:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        for arguments in (case.arguments, f"{case.arguments} {case.fix or ''}"):
            assert compose("train", overrides=shlex.split(arguments))


def test_every_rule_that_a_cpu_can_show_has_a_case_and_an_experiment() -> None:
    planted = {case.rule for case in PLANTED}
    assert set(all_rules()) - ONLY_ON_A_DEVICE <= planted
    assert not planted & ONLY_ON_A_DEVICE
    experiments = {path.stem.replace("_", "-") for path in (ROOT / "configs" / "experiment").glob("*.yaml")}
    assert experiments == planted


def test_cases_of_memory_train_for_longer_than_growth_takes_to_tell() -> None:
    for case in PLANTED:
        if case.rule == MemoryGrowth.id():
            num_optimizers = 2 if "model=gan" in case.arguments else 1
            steps = re.search(r"trainer\.max_steps=(\d+)", case.arguments)
            assert steps is not None, case.name
            assert int(steps[1]) / num_optimizers >= 2 * MemoryGrowth().min_steps, case.name


def test_a_name_that_no_case_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        faults.main(["--only", "nonsense"])
    assert "no case is named or has the rule 'nonsense'" in capsys.readouterr().err


def test_a_run_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    outcome = train(Case("broken", "model.num_heads=7"), tmp_path)
    assert outcome.report is None
    assert "must be a multiple of num_heads=7" in outcome.words


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_the_fault_is_found_first_and_nothing_else_is_said(case: Case, tmp_path: Path) -> None:
    outcome = train(case, tmp_path, num_steps=FEW_STEPS)
    assert outcome.report is not None, outcome.words
    verdict = judge(case.name, outcome.findings, case.rule, case.also)
    assert verdict.rank == (1 if case.rule else None), outcome.findings
    assert verdict.false_alarms == ()
