"""A child that answers, and all the ways in which a broken torch keeps it from answering."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lightning_perfwatch.checkup.facts import Package, Recording, TorchFacts
from lightning_perfwatch.checkup.torch_child import ask_torch
from lightning_perfwatch.live.capabilities import QUESTIONS


@pytest.fixture
def fake_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a torch that is found before the real one."""
    package = tmp_path / "fake" / "torch"
    package.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return package / "__init__.py"


def test_the_real_torch_answers_everything() -> None:
    facts = ask_torch(240)

    assert facts.failures == {}
    assert facts.build is not None
    assert facts.devices is not None
    assert facts.recording is not None
    assert facts.recording.num_operators > 0
    assert "CPU" in facts.recording.activities
    assert facts.lightning is not None
    assert facts.watchers is not None


def test_every_question_is_a_field_and_is_waited_for() -> None:
    assert set(QUESTIONS) == set(ask_torch(60, "raise SystemExit").failures)
    assert set(QUESTIONS) == set(TorchFacts.__dataclass_fields__) - {"failures", "complaints"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libcudart.so.13: cannot open')", "ImportError: libcudart.so.13: cannot open"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("print('hello'); x = 1", "AttributeError: module 'torch' has no attribute 'version'"),
        ("import os; os._exit(3)", "its process ended with exit code 3"),
        (
            "import os, sys; sys.stderr.write('no GPU for you\\n'); os.abort()",
            "its process was ended by SIGABRT (no GPU",
        ),
    ],
)
def test_a_broken_torch_is_a_reason(code: str, said: str, fake_torch: Path) -> None:
    fake_torch.write_text(code)

    facts = ask_torch(60)

    assert facts.watchers is not None
    assert facts.build is None
    assert facts.failures["build"].startswith(said)
    assert set(facts.failures) == {"build", "devices", "recording", "lightning"}


def test_a_torch_that_hangs_is_given_up_with_all_that_it_started(fake_torch: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    fake_torch.write_text(
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "time.sleep(300)\n"
    )

    facts = ask_torch(5)

    assert facts.failures["build"] == "it did not answer within 5 s"
    assert is_gone(int(pid_file.read_text()))


def is_gone(pid: int) -> bool:
    """Whether the process has ended, at the latest within ten seconds; an orphan may stay until it is collected."""
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_answers_that_came_before_the_end_are_kept() -> None:
    code = """
import os
os.write(1, b'noise\\n{"build": {"version": "2", "built_for": "cpu"}}\\n{"lightning": {"version": "2.6"}}\\n')
os.write(1, b'{"recording": {"activities": ["CPU"], "num_operators": 3}}\\n[1]\\n{"other": 1}\\n{"devices": "Err')
os.write(2, b'x CUPTI_ERROR_BUSY\\nlast words\\n')
os.kill(os.getpid(), 11)
"""

    facts = ask_torch(60, code)

    assert facts.lightning == Package("2.6")
    assert facts.recording == Recording(("CPU",), 3)
    assert facts.complaints == ("x CUPTI_ERROR_BUSY",)
    assert facts.failures == dict.fromkeys(("watchers", "devices"), "its process was ended by SIGSEGV (last words)")
