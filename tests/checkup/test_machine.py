from __future__ import annotations

import importlib.metadata
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lightning_perfwatch.checkup import machine
from lightning_perfwatch.checkup.facts import MachineFacts, TorchFacts


@pytest.fixture(autouse=True)
def no_torch_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ask_torch", lambda timeout_s: TorchFacts())


def seen(path: Path) -> MachineFacts:
    return machine.look(path, 1.0)


def test_a_directory_that_is_still_to_be_made_is_judged_by_its_parent_and_not_made(tmp_path: Path) -> None:
    facts = seen(tmp_path / "a" / "b")

    assert facts.directory.problem is None
    assert facts.directory.free_bytes is not None
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert seen(tmp_path / "file").directory.problem == f"{tmp_path / 'file'}: Not a directory"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory in which nobody can write")
def test_a_directory_that_nobody_can_write_is_a_problem() -> None:
    assert str(seen(Path("/proc/self")).directory.problem).startswith("/proc/self: ")


@pytest.fixture
def few_files() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_limits_of_the_process_are_read(few_files: int, tmp_path: Path) -> None:
    assert seen(tmp_path).max_open_files == few_files


def test_the_clock_of_this_machine_is_read(tmp_path: Path) -> None:
    clock = seen(tmp_path).clock

    assert clock.is_monotonic
    assert 0 < clock.read_s < 1e-3


def test_the_processors_of_this_process_are_counted(tmp_path: Path) -> None:
    processors = seen(tmp_path).processors

    assert 1 <= processors.num_allowed <= processors.num_cpus == os.cpu_count()


def test_the_compiler_is_the_one_that_cxx_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "my-cxx"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", f"{compiler} -O2")
    assert seen(tmp_path).compiler == str(compiler)

    monkeypatch.setenv("CXX", str(tmp_path / "absent"))
    assert seen(tmp_path).compiler is None

    monkeypatch.delenv("CXX")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "clang++" else None)
    assert seen(tmp_path).compiler == "/bin/clang++"


def test_variables_that_are_in_the_way_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_USE_DAEMON", "1")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "")

    environment = seen(tmp_path).environment

    assert environment["KINETO_USE_DAEMON"] == "1"
    assert "CUDA_LAUNCH_BLOCKING" not in environment


def test_packages_are_looked_for_without_importing_them(tmp_path: Path) -> None:
    packages = seen(tmp_path).packages

    assert packages["lightning"] == importlib.metadata.version("lightning")
    assert set(packages) >= {"tensorboard", "torch-tb-profiler", "nvidia-ml-py"}


def test_the_driver_tells_its_version_and_its_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\nGCC 13\n"
    )
    monkeypatch.setattr(machine, "_NVIDIA", tmp_path)
    assert (seen(tmp_path).nvidia.num_gpus, seen(tmp_path).nvidia.driver_version) == (1, "580.65.06")

    monkeypatch.setattr(machine, "_NVIDIA", tmp_path / "absent")
    assert (seen(tmp_path).nvidia.num_gpus, seen(tmp_path).nvidia.driver_version) == (0, None)
