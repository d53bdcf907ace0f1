"""Asks a child process what torch can measure, so that a torch that crashes or hangs costs its answers only.

Owns the child, its time limit and the reasons for what it did not answer. Knows torch by name only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from dataclasses import replace
from typing import Any, BinaryIO

import msgspec

from lightning_perfwatch.checkup.facts import TorchFacts
from lightning_perfwatch.processes import start_child

_CODE = "from lightning_perfwatch.live.capabilities import answer_all; answer_all()"
_FIELDS = ("watchers", "build", "devices", "recording", "lightning")
"""In the order in which the child answers."""

_NUM_COMPLAINTS = 3


def ask_torch(timeout_s: float, code: str = _CODE) -> TorchFacts:
    """What a child process answers within ``timeout_s`` seconds; ``code`` is what it runs."""
    with tempfile.TemporaryFile() as errors:
        child = start_child(code, errors)
        try:
            output, _ = child.communicate(timeout=timeout_s)
            end = _end_of(child.returncode)
        except subprocess.TimeoutExpired:
            output, end = _end(child), f"it did not answer within {timeout_s:g} s"
        finally:
            _end(child)
        return _facts(output, end, _lines(errors))


def _end(child: subprocess.Popen[bytes]) -> bytes:
    """End the child and whatever it has started; what it had answered until then."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)  # it leads a session of its own
            else:
                child.kill()
        return child.communicate()[0]
    return b""


def _end_of(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process ended with exit code {status}"


def _lines(file: BinaryIO) -> list[str]:
    file.seek(0)
    return [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


def _facts(output: bytes, end: str, said: list[str]) -> TorchFacts:
    answers = _answers(output)
    unanswered = [name for name in _FIELDS if name not in answers]
    reason = f"{end} ({said[-1]})" if said else end
    failures = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    known = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
    facts = msgspec.convert(known, TorchFacts)
    complaints = [line for line in said if "CUPTI" in line.upper() or "ROCTRACER" in line.upper()]
    return replace(
        facts,
        failures={**failures, **dict.fromkeys(unanswered, reason)},
        complaints=tuple(complaints[:_NUM_COMPLAINTS]),
    )


def _answers(output: bytes) -> dict[str, Any]:
    """The answers in whole lines of ``output``; what a broken package wrote in between is left out."""
    answers: dict[str, Any] = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict):
                answers.update((name, answer) for name, answer in document.items() if name in _FIELDS)
    return answers
