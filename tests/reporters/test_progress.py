from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from lightning_perfwatch.reporters.progress import ProgressLine, reading


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for_a_line(stream: io.StringIO) -> None:
    deadline_s = time.monotonic() + 10
    while not stream.getvalue() and time.monotonic() < deadline_s:
        time.sleep(0.005)


def test_the_line_is_one_clean_line_and_gone_at_the_end() -> None:
    terminal = Terminal()

    with ProgressLine(terminal, lambda: "reading\n\x1b[31m" + "x" * 500, delay_s=0.0):
        wait_for_a_line(terminal)

    first, *_, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("perfwatch: 0 s, reading [31mx")
    assert len(first) == 79
    assert last == ""
    assert "\n" not in terminal.getvalue()


def test_what_is_done_soon_shows_nothing() -> None:
    terminal = Terminal()

    with ProgressLine(terminal, lambda: "reading"):
        pass

    assert terminal.getvalue() == ""


def test_a_pipe_gets_nothing() -> None:
    pipe = io.StringIO()

    with ProgressLine(pipe, lambda: "reading", delay_s=0.0):
        time.sleep(0.02)

    assert pipe.getvalue() == ""


def test_an_error_passes_through_and_leaves_no_line() -> None:
    terminal = Terminal()

    with pytest.raises(KeyboardInterrupt), ProgressLine(terminal, lambda: "reading", delay_s=0.0):
        wait_for_a_line(terminal)
        raise KeyboardInterrupt

    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="needs a system that tells file positions")
def test_the_position_in_an_open_file_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "a.json"
    trace.write_bytes(bytes(3_000_000))
    with trace.open("rb", buffering=0) as file:
        file.read(1_000_000)
        assert reading([os.getpid()], [trace]) == "a.json 1 of 3 MB"
        assert reading([os.getpid()], [tmp_path]) == "a.json 1 of 3 MB"
        assert reading([os.getpid()], [trace], num_parts=2) == "a.json 2 of 3 MB"
        assert reading([os.getpid()], [trace], num_parts=8) == "a.json 3 of 3 MB"
    assert reading([os.getpid(), 2**30], [trace]) == "a.json (3 MB)"
    assert reading([], [tmp_path / "absent"]) == "absent"
    assert reading([], [trace, tmp_path]) == "analysing"
