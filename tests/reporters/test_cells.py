from __future__ import annotations

import pytest

from lightning_perfwatch.reporters.cells import cropped, padded, width_of, wrapped


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("aten::mm", 8), ("µs…", 3), ("卷积层", 6), ("🚀x", 3), ("e\u0301", 1)]
)
def test_text_is_as_wide_as_a_terminal_shows_it(text: str, width: int) -> None:
    assert width_of(text) == width


@pytest.mark.parametrize("text", ["aten::mm" * 9, "卷积" * 20, "🚀" * 20, "a卷" * 20])
@pytest.mark.parametrize("width", [2, 7, 20])
def test_what_is_cut_fits_and_says_so(text: str, width: int) -> None:
    assert width - 1 <= width_of(cropped(text, width)) <= width
    assert cropped(text, width).endswith("…")
    assert width_of(padded(cropped(text, width), width)) == width


def test_what_fits_is_not_cut() -> None:
    assert cropped("卷积", 4) == "卷积"
    assert padded("卷积", 3) == "卷积"


def test_lines_are_filled_and_no_word_is_broken() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("one two three", 8, first_width=5) == ["one", "two", "three"]
    assert wrapped("a /very/long/path b", 6) == ["a", "/very/long/path", "b"]
    assert wrapped("卷积 卷积 卷积", 9) == ["卷积 卷积", "卷积"]
    assert wrapped("", 9) == [""]


def test_a_number_stays_with_its_unit() -> None:
    assert wrapped("at 12 ms", 5) == ["at", "12 ms"]
    assert wrapped("at 12 msgs", 5) == ["at 12", "msgs"]
