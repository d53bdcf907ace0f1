"""Every test of a public report works in a directory of its own and leaves no profiler running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reports.harness import profiler_is_running


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_profiler_is_left() -> Iterator[None]:
    yield
    assert not profiler_is_running(), "a profiler was left running"
