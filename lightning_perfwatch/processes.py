"""What this process may use, and what the children get that read traces for it.

Knows the operating system only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import IO, BinaryIO

_CGROUPS = Path("/sys/fs/cgroup")
_PACKAGE_PARENT = str(Path(__file__).parents[1])


def num_usable_cpus() -> int:
    """CPUs that this process may use: its affinity, cut down by a control group's quota where there is one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota_cpus()
    return count if quota is None else max(1, min(count, round(quota)))


def cgroup_quota_cpus() -> float | None:
    """CPUs by the quota of control groups, version 2 or else version 1; None where there is no limit."""
    try:
        if (_CGROUPS / "cpu.max").exists():
            quota, period = (_CGROUPS / "cpu.max").read_text().split()
        else:
            quota = (_CGROUPS / "cpu/cpu.cfs_quota_us").read_text()
            period = (_CGROUPS / "cpu/cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def child_environment() -> dict[str, str]:
    """For a child that imports this very package, nothing from its working directory, and needs no thread pool."""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if _PACKAGE_PARENT not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):  # found there anyway
        paths.insert(0, _PACKAGE_PARENT)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def start_child(code: str, errors: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """A child of this interpreter that runs ``code``, with pipes to its stdin and from its stdout.

    It has a session of its own: a Ctrl-C in the terminal is for the parent, which ends its children.
    """
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=child_environment(),
        start_new_session=True,
    )


def answer_pipe() -> BinaryIO:
    """In such a child: its stdout for its answers alone; what is printed from now on goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
