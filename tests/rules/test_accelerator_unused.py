from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Accelerators, Resources
from lightning_perfwatch.rules.accelerator_unused import AcceleratorUnused
from tests.rules.factories import evidence, on_gpu, resources, run_info


def machine(num_parameters: int | None = 10_000_000, **there: Any) -> Evidence:
    return evidence(
        run=run_info(num_parameters=num_parameters), resources=resources(accelerators=Accelerators(**there))
    )


def check(found: Evidence) -> list[Finding]:
    return list(AcceleratorUnused().check(found))


def test_silent_without_an_accelerator_and_on_one() -> None:
    assert check(machine()) == []
    assert check(evidence(run=on_gpu(), resources=Resources())) == []
    assert AcceleratorUnused().skip_reason(evidence(run=on_gpu(), resources=Resources())) is None


def test_silent_where_a_gpu_is_hidden_from_a_torch_that_knows_it() -> None:
    assert check(machine(num_nvidia=4, build="cuda")) == []


def test_skipped_where_nobody_answered() -> None:
    reason = AcceleratorUnused().skip_reason(evidence(resources=Resources(missing={"accelerators": "no answer"})))
    assert reason == "no answer"


def test_a_gpu_that_torch_could_use() -> None:
    (finding,) = check(machine(usable={"cuda": 2}, num_nvidia=2, build="cuda"))
    assert (finding.severity, finding.share) == (Severity.WARNING, None)
    assert finding.summary == "Training runs on the CPU, and this machine has 2 GPUs."
    assert finding.advice == 'Train with Trainer(accelerator="auto").'


def test_a_gpu_that_torch_is_not_built_for() -> None:
    (finding,) = check(machine(num_nvidia=1, build="cpu"))
    assert finding.severity is Severity.WARNING
    assert finding.summary == (
        "Training runs on the CPU, and this machine has 1 NVIDIA GPU, and this torch is built for CPUs only."
    )
    assert "build for CUDA" in finding.advice


@pytest.mark.parametrize(("num_parameters", "severity"), [(99_999, Severity.INFO), (100_000, Severity.WARNING)])
def test_a_small_model_gains_little(num_parameters: int, severity: Severity) -> None:
    (finding,) = check(machine(num_parameters, usable={"cuda": 1}))
    assert finding.severity is severity


def test_apples_gpus_may_be_slower() -> None:
    (finding,) = check(machine(None, usable={"mps": 1}))
    assert finding.severity is Severity.INFO
    assert "1 Apple GPU." in finding.summary
