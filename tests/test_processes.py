from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_perfwatch import processes
from lightning_perfwatch.processes import child_environment, num_usable_cpus


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of eight CPUs whose control groups are as the test writes them."""
    monkeypatch.setattr(processes, "_CGROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("files", "num_cpus"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu.max": "nonsense 0\n"}, 8),
        ({"cpu.max": "100000 0\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "300000\n"}, 8),
    ],
)
def test_a_control_groups_quota_limits_the_cpus(cgroups: Path, files: dict[str, str], num_cpus: int) -> None:
    for name, text in files.items():
        (cgroups / name).write_text(text)

    assert num_usable_cpus() == num_cpus


def test_where_there_is_no_affinity_the_machines_cpus_count(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)

    assert num_usable_cpus() == 5


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
def test_a_child_imports_this_package_and_nothing_from_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger')")
    code = "import json, lightning_perfwatch; print(lightning_perfwatch.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(Path(processes.__file__).parent) in done.stdout


def test_the_users_own_path_stays_and_no_thread_pools_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("/of/mine", "")))
    environment = child_environment()
    assert environment["PYTHONPATH"].split(os.pathsep)[-1] == "/of/mine"
    assert environment["OMP_NUM_THREADS"] == "1"


def test_a_package_among_the_installed_ones_is_not_put_before_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(processes, "_PACKAGE_PARENT", str(tmp_path))
    assert child_environment()["PYTHONPATH"] == str(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert child_environment()["PYTHONPATH"] == ""
