from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.checkup.check import Check, Status
from lightning_perfwatch.checkup.facts import (
    Clock,
    Devices,
    Directory,
    MachineFacts,
    Nvidia,
    Processors,
    Recording,
    TorchBuild,
    TorchFacts,
    Watchers,
)
from lightning_perfwatch.checkup.judgement import judge, lacking
from tests.checkup.factories import machine_facts, torch_facts

CPU = {"devices": Devices(), "recording": Recording(("CPU",), 13)}


def noted(facts: MachineFacts) -> list[Check]:
    return [check for check in judge(facts) if check.status is not Status.OK]


def only(facts: MachineFacts) -> Check:
    (check,) = noted(facts)
    return check


@pytest.mark.parametrize(
    "facts",
    [
        machine_facts(),
        machine_facts(torch=torch_facts(**CPU)),
        machine_facts(torch=torch_facts(build=TorchBuild("2.9.0", "cpu"), **CPU)),
        machine_facts(processors=Processors(64, 8, 8.0, True), max_open_files=None, shared_memory_bytes=None),
        machine_facts(environment={"CUDA_LAUNCH_BLOCKING": "0"}),
    ],
)
def test_a_machine_without_fault_is_all_right(facts: MachineFacts) -> None:
    assert noted(facts) == []
    assert not lacking(judge(facts))


def test_what_is_there_is_named() -> None:
    details = {check.name: check.detail for check in judge(machine_facts(nvidia=Nvidia(2, "580.65")))}

    assert details["torch"] == "2.9.0, built for CUDA 13.0"
    assert details["device"] == "cuda: 2 x NVIDIA H100, driver 580.65"
    assert details["profiler"] == "activities CPU, CUDA: 13 operators and 4 kernels recorded in a trial"
    assert details["clock"] == "tsc, a reading takes 50 ns"


def test_without_torch_nothing_is_measured_and_nothing_is_said_of_what_hangs_on_it() -> None:
    reason = "ModuleNotFoundError: No module named 'torch'"
    names = ("build", "devices", "recording", "lightning")
    facts = machine_facts(torch=TorchFacts(failures=dict.fromkeys(names, reason)))

    torch, lightning = noted(facts)
    assert torch == Check(
        "torch", Status.MISSING, f"import torch fails here: {reason}", "Install it: pip install torch.", True
    )
    assert lightning.status is Status.WARNING
    assert lacking(judge(facts)) == (torch,)
    assert "device" not in {check.name for check in judge(facts)}


def test_a_broken_torch_is_to_be_mended_not_installed() -> None:
    check = noted(machine_facts(torch=TorchFacts(failures={"build": "OSError: libcudart.so.13"})))[0]

    assert check.name == "torch"
    assert "pip install" not in str(check.remedy)


FAULTS: dict[str, tuple[dict[str, Any], str, Status, bool, str]] = {
    "a driver that torch can't use": (
        {"torch": torch_facts(**CPU), "nvidia": Nvidia(2, "450.1")},
        "device",
        Status.MISSING,
        True,
        "2 GPU(s) that torch can't use",
    ),
    "devices that can't be looked for": (
        {"torch": torch_facts(devices=None, failures={"devices": "RuntimeError: no"})},
        "device",
        Status.MISSING,
        True,
        "RuntimeError: no",
    ),
    "a profiler that fails": (
        {"torch": torch_facts(recording=None, failures={"recording": "RuntimeError: no"})},
        "profiler",
        Status.MISSING,
        True,
        "RuntimeError: no",
    ),
    "a profiler without operators": (
        {"torch": torch_facts(recording=Recording((), 0))},
        "profiler",
        Status.MISSING,
        True,
        "no operator",
    ),
    "a profiler without kernels": (
        {"torch": torch_facts(recording=Recording(("CPU",), 13, 0), complaints=("CUPTI: busy",))},
        "profiler",
        Status.MISSING,
        True,
        "no kernel of the device (activities: CPU): CUPTI: busy",
    ),
    "no lightning": (
        {"torch": torch_facts(lightning=None), "packages": {**machine_facts().packages, "lightning": None}},
        "lightning",
        Status.MISSING,
        True,
        "not installed",
    ),
    "a lightning that can't be imported": (
        {"torch": torch_facts(lightning=None, failures={"lightning": "ImportError: x"})},
        "lightning",
        Status.MISSING,
        True,
        "2.6.0 is installed: ImportError: x",
    ),
    "no TensorBoard": (
        {"packages": {**machine_facts().packages, "tensorboard": None}},
        "TensorBoard",
        Status.MISSING,
        False,
        "not installed",
    ),
    "no tab": ({"has_tensorboard_tab": False}, "TensorBoard", Status.WARNING, False, "not registered"),
    "no torch-tb-profiler": (
        {"packages": {**machine_facts().packages, "torch-tb-profiler": None}},
        "torch-tb-profiler",
        Status.MISSING,
        False,
        "not installed",
    ),
    "no nvidia-ml-py": (
        {"packages": {**machine_facts().packages, "nvidia-ml-py": None}},
        "throttling",
        Status.MISSING,
        False,
        "nvidia-ml-py is not installed",
    ),
    "no counter of heat": (
        {"torch": torch_facts(**CPU), "processors": Processors(8, 8)},
        "throttling",
        Status.MISSING,
        False,
        "can't be read",
    ),
    "a directory that can't be written": (
        {"directory": Directory("/logs", "/: Permission denied")},
        "log directory",
        Status.MISSING,
        True,
        "/logs can't be written (/: Permission denied)",
    ),
    "a full disk": (
        {"directory": Directory("/logs", None, 999_999_999)},
        "disk space",
        Status.WARNING,
        False,
        "1,000 MB",
    ),
    "a quota": (
        {"processors": Processors(64, 64, 2.0, True)},
        "CPUs",
        Status.WARNING,
        False,
        "the time of 2 CPUs, and torch starts 64 threads",
    ),
    "one CPU": ({"processors": Processors(64, 1, None, True)}, "CPUs", Status.WARNING, False, "1, which"),
    "little shared memory": ({"shared_memory_bytes": 67_108_864}, "shared memory", Status.WARNING, False, "67 MB"),
    "few open files": ({"max_open_files": 256}, "open files", Status.WARNING, False, "at most 256"),
    "a slow clock": (
        {"clock": Clock("hpet", 1.5e-6, 1e-9)},
        "clock",
        Status.WARNING,
        False,
        "hpet, a reading takes 1.5 µs",
    ),
    "a coarse clock": ({"clock": Clock(None, 1e-7, 0.015)}, "clock", Status.WARNING, False, "1.5e+04 µs"),
    "a clock that goes back": ({"clock": Clock("tsc", 1e-7, 1e-9, False)}, "clock", Status.MISSING, True, "goes back"),
    "Nsight": (
        {"environment": {"CUDA_INJECTION64_PATH": "/nsys.so"}},
        "environment",
        Status.WARNING,
        False,
        "CUDA_INJECTION64_PATH is set: it loads another CUDA profiler",
    ),
    "a debugger": ({"tracer_pid": 7}, "tracer", Status.WARNING, False, "process 7"),
    "a trace function": (
        {"torch": torch_facts(watchers=Watchers(("a trace function (coverage)",)))},
        "tracer",
        Status.WARNING,
        False,
        "coverage",
    ),
    "no compiler": ({"compiler": None}, "C++ compiler", Status.MISSING, False, "neither"),
}


@pytest.mark.parametrize(("changes", "name", "status", "is_essential", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_one_fault_is_one_check_with_its_remedy(
    changes: dict[str, Any], name: str, status: Status, is_essential: bool, said: str
) -> None:
    facts = machine_facts(**changes)

    check = only(facts)

    assert (check.name, check.status, check.is_essential) == (name, status, is_essential)
    assert said in check.detail
    assert check.remedy is not None
    assert check.remedy.endswith(".")
    assert bool(lacking(judge(facts))) == is_essential


def test_a_torch_for_cpus_beside_a_gpu_is_the_wrong_torch() -> None:
    check = only(machine_facts(torch=torch_facts(build=TorchBuild("2.9.0", "cpu"), **CPU), nvidia=Nvidia(1, "580.65")))

    assert check.remedy == "Install a torch that is built for CUDA."


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({"max_open_files": 1024}, {"max_open_files": 1023}, "open files"),
        ({"shared_memory_bytes": 512_000_000}, {"shared_memory_bytes": 511_999_999}, "shared memory"),
        ({"clock": Clock("x", 1e-6, 1e-9)}, {"clock": Clock("x", 1.01e-6, 1e-9)}, "clock"),
        (
            {"directory": Directory("/", None, 1_000_000_000)},
            {"directory": Directory("/", None, 999_999_999)},
            "disk space",
        ),
    ],
)
def test_limits_have_an_edge(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    assert noted(machine_facts(**before)) == []
    assert only(machine_facts(**after)).name == name
