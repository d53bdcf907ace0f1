"""Code around the places of findings; whatever lies at a path, reading it neither waits nor fails."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lightning_perfwatch import excerpts as module
from lightning_perfwatch.excerpts import excerpts
from lightning_perfwatch.finding import Where
from lightning_perfwatch.measurements import Excerpt
from tests.reporters.factories import finding

TEN_LINES = "".join(f"line {number}\n" for number in range(1, 11))


def at(file: Path | str, line: int | None, measured_at_s: float | None = None) -> Excerpt | None:
    """The code around one place."""
    found = excerpts([finding(where=Where(file=str(file), line=line))], measured_at_s)
    assert set(found) <= {f"{file}:{line}"}
    return found.get(f"{file}:{line}")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "my project" / "train.py"
    path.parent.mkdir()
    path.write_text(TEN_LINES)
    return path


@pytest.mark.parametrize(("line", "first", "last"), [(5, 2, 8), (1, 1, 4), (2, 1, 5), (9, 6, 10), (10, 7, 10)])
def test_three_lines_on_either_side_are_read_as_far_as_there_are_any(
    code: Path, line: int, first: int, last: int
) -> None:
    lines = tuple(f"line {number}" for number in range(first, last + 1))

    assert at(code, line) == Excerpt(str(code), first, lines)


def test_each_place_is_read_once_and_findings_without_one_have_none(code: Path) -> None:
    known = [finding(where=Where(file=str(code), line=line)) for line in (3, 9, 3)]

    assert list(excerpts([*known, finding(where=Where(op="aten::mm"))])) == [f"{code}:3", f"{code}:9"]
    assert excerpts([]) == {}


@pytest.mark.parametrize("line", [11, 10**9, 0, -1, None])
def test_a_line_that_the_file_does_not_have_gives_nothing(code: Path, line: int | None) -> None:
    assert at(code, line) is None


@pytest.mark.parametrize("name", ["gone.py", ".", "a\0b.py", "x" * 5000, "code.py/below.py", "\udcff.py"])
def test_what_is_no_file_gives_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "code.py").write_text(TEN_LINES)

    assert at(f"{tmp_path}/{name}", 1) is None


def test_a_relative_path_is_not_read_since_it_may_be_another_projects(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(code.parent)

    assert at("train.py", 3) is None
    assert at("<ipython-input-3>", 3) is None


def test_a_binary_file_and_an_empty_one_give_nothing(code: Path) -> None:
    code.write_bytes(b"one\ntwo\0\nthree\n")
    assert at(code, 1) is None
    code.write_bytes(b"")
    assert at(code, 1) is None


def test_text_that_is_no_utf_8_is_read_with_a_sign_for_what_is_not_understood(code: Path) -> None:
    code.write_bytes("# -*- latin-1 -*-\nprint('é')\n".encode("latin-1"))

    assert at(code, 2) == Excerpt(str(code), 1, ("# -*- latin-1 -*-", "print('\ufffd')"))


def test_lines_are_counted_as_python_counts_them(code: Path) -> None:
    code.write_bytes("one\r\ntwo \u2028 still two\rthree\x0c\nfour".encode())

    assert at(code, 4) == Excerpt(str(code), 1, ("one", "two \u2028 still two", "three\x0c", "four"))


def test_a_long_line_is_cut(code: Path) -> None:
    code.write_text("x" * 200 + "\n" + "y" * 201 + "\n")
    excerpt = at(code, 1)

    assert excerpt is not None
    assert excerpt.lines == ("x" * 200, "y" * 199 + "…")


def test_of_a_huge_file_only_the_begin_is_read(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", len(TEN_LINES) - 2)

    assert at(code, 9) == Excerpt(str(code), 6, ("line 6", "line 7", "line 8", "line 9"))
    assert at(code, 10) is None


def test_a_file_that_changed_since_it_was_measured_is_not_shown(code: Path) -> None:
    os.utime(code, (1000.0, 1000.0))

    assert at(code, 5, measured_at_s=1000.0) is not None
    assert at(code, 5, measured_at_s=999.0) is None


def test_devices_pipes_and_files_of_the_kernel_are_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    read: list[Excerpt | None] = []
    places = [pipe, Path("/dev/zero"), Path("/dev/tty"), Path("/proc/kmsg"), Path("/proc/self/mem")]
    reading = threading.Thread(target=lambda: read.extend(at(place, 1) for place in places), daemon=True)
    reading.start()
    reading.join(timeout=30)

    assert read == [None] * len(places)
