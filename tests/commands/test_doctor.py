"""``perfwatch doctor`` as a command: what it prints, its exit codes, and that nothing breaks it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_perfwatch import cli
from lightning_perfwatch.checkup import machine
from lightning_perfwatch.checkup.facts import Directory, MachineFacts
from tests.checkup.factories import machine_facts
from tests.reporters.emulator import Emulator


def found(facts: MachineFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look", lambda directory, timeout_s: facts)


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lightning_perfwatch", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_this_machine_can_measure_and_says_so_in_json(tmp_path: Path) -> None:
    done = doctor("--format", "json", "--log-dir", str(tmp_path), "--timeout", "240")

    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["can_measure"] is True
    by_name = {check["name"]: check for check in document["checks"]}
    for name in ("torch", "device", "profiler", "lightning", "Python", "log directory", "clock"):
        assert by_name[name]["status"] == "ok", by_name[name]
    assert all((check["remedy"] is None) == (check["status"] == "ok") for check in document["checks"])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError('broken torch')", "ImportError: broken torch"),
        ("import os; os._exit(7)", "its process ended with exit code 7"),
        ("import time; time.sleep(300)", "it did not answer within 4 s"),
    ],
)
def test_a_torch_that_raises_exits_or_hangs_is_a_line(
    code: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = doctor("--timeout", "4", "--log-dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (1, "")
    (line,) = (line for line in done.stdout.splitlines() if line.split()[1:2] == ["torch"])
    assert line.startswith(f"missing  torch              import torch fails here: {reason}. Make python -c")
    assert done.stdout.endswith("\nPerfWatch can't measure here as it should: torch missing.\n")


def test_a_pipe_has_a_line_for_every_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found(machine_facts(shared_memory_bytes=64_000_000), monkeypatch)

    assert cli.main(["doctor"]) == cli.EXIT_OK

    *lines, blank, verdict = capsys.readouterr().out.splitlines()
    assert (blank, verdict) == ("", "Nothing is missing that PerfWatch needs to measure here.")
    assert {line.split()[0] for line in lines} == {"ok", "warning"}
    assert [line for line in lines if line.startswith("warning")] == [
        "warning  shared memory      64 MB in /dev/shm".replace("64 MB in /dev/shm", "/dev/shm has 64 MB, ")
        + "through which loader workers pass every batch. Start the container with --shm-size=8g or --ipc=host."
    ]


def test_what_is_missing_and_essential_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found(machine_facts(directory=Directory("/logs", "/: Permission denied"), compiler=None), monkeypatch)

    assert cli.main(["doctor", "--format", "json"]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["can_measure"] is False
    assert [check["name"] for check in document["checks"] if check["status"] == "missing"] == [
        "log directory",
        "C++ compiler",
    ]


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_gets_lines_that_fit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    found(machine_facts(compiler=None, python_path="/env/\x1b[31mpython"), monkeypatch)
    with Emulator(columns) as emulator:
        monkeypatch.setattr(sys, "stdout", emulator.stream)
        assert cli.main(["doctor"]) == cli.EXIT_OK
        assert "\x1b[1;31mmissing" in emulator.raw
        assert "\x1b[31mpython" not in emulator.raw
        (line,) = (number for number, line in enumerate(emulator.lines) if line.startswith("missing  C++ compiler"))
        assert emulator.lines[line + 1].startswith(" " * (28 if columns == 80 else 4))
        words = set(" ".join(emulator.lines).split())
        assert {"path", "compiler", "g++),", "Nothing", "measure", "here."} <= words, "a word was broken"


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--timeout", "x"], ["--format", "html"], ["extra"]])
def test_a_bad_argument_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", *arguments]) == cli.EXIT_UNREADABLE
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_an_encoding_without_unicode_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    found(machine_facts(python_path="/环境/python"), monkeypatch)
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    assert cli.main(["doctor"]) == cli.EXIT_OK

    assert b"/??/python" in raw.getvalue()
