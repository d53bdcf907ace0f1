"""Lines and reports beside progress bars, seen on a real pseudo-terminal and in files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from lightning.pytorch.callbacks import Callback, ProgressBar, RichProgressBar, TQDMProgressBar
from rich.progress import Progress
from tqdm import tqdm

from lightning_perfwatch.reporters import screen, terminal
from tests.reporters.emulator import Emulator
from tests.reporters.factories import report
from tests.reports.harness import Module, fit, loader, perfwatch, trainer

LINE = "PerfWatch profiled steps 2 to 4: no bottleneck found."
LONG_DIRECTORY = "/logs/" + "long/" * 30


@pytest.fixture(autouse=True)
def no_colour_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """A terminal of 80 columns, which the process is on as long as :func:`on` it."""
    monkeypatch.setenv("COLUMNS", "80")  # rich asks the descriptors 0 to 2, which are the test's
    with Emulator() as emulator:
        yield emulator


@contextlib.contextmanager
def on(stream: TextIO) -> Iterator[None]:
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield


class Speaker(Callback):
    """Says the line in the sixth step and shows the report when the fit is over, as PerfWatch does."""

    def __init__(self, breaks: bool = False) -> None:
        self.breaks = breaks

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 5:
            screen.say(LINE, sys.stdout, trainer.progress_bar_callback)
        if batch_idx == 7 and self.breaks:
            raise RuntimeError("broken")

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        terminal.show(report(directory=LONG_DIRECTORY), sys.stdout, trainer.progress_bar_callback)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_fit_end(trainer, pl_module)


class OwnProgress(ProgressBar):
    """As Lightning's documentation shows one: no ``print`` of its own."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        sys.stdout.write(f"\r{batch_idx + 1} of {self.total_train_batches} batches")


class Dots(Callback):
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        sys.stdout.write(".")


class OwnTqdm(Callback):
    """A bar of tqdm on stderr that Lightning does not know of."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.bar = tqdm(total=10, desc="own bar", file=sys.stderr, mininterval=0)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.bar.update()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.bar.close()


BARS: dict[str, tuple[Callable[[], list[Any]], str | None]] = {
    "tqdm": (lambda: [TQDMProgressBar()], r"Epoch 0: 100%\|█+\| 10/10 \[.*\]"),
    "tqdm that is left": (lambda: [TQDMProgressBar(leave=True)], r"Epoch 0: 100%\|█+\| 10/10 \[.*\]"),
    "rich": (lambda: [RichProgressBar()], r"Epoch 0/0 +━+ 10/10 .*"),
    "rich that is left": (lambda: [RichProgressBar(leave=True)], r"Epoch 0/0 +━+ 10/10 .*"),
    "a class of the user's": (lambda: [OwnProgress()], r"10 of 10 batches"),
    "a bar of the user's": (lambda: [OwnTqdm()], r"own bar: 100%\|█+\| 10/10 \[.*\]"),
    "dots": (lambda: [Dots()], r"\.{4}"),
    "none": (list, None),
}


def seen_whole(lines: list[str], bar: str | None) -> None:
    """The line and the report stand on lines of their own, and so does the bar, whose last state is to be seen."""
    assert lines.count(LINE) == 1
    title = "PerfWatch  GPT (825 k parameters) on cpu, Some CPU, precision 32-true, 240 steps"
    start = lines.index(title)
    assert lines.index(LINE) < start
    end = next(number for number, line in enumerate(lines) if line.startswith("  evidence"))
    shown = terminal.render(report(directory=LONG_DIRECTORY), width=80).splitlines()
    assert "".join(lines[start : end + 3]).replace(" ", "").startswith("".join(shown).replace(" ", ""))
    others = [*lines[:start], *lines[end + 3 :]]
    assert bar is None or [line for line in others if re.fullmatch(bar, line.strip())], others
    assert not [line for line in others if "PerfWatch" in line and line != LINE]


@pytest.mark.parametrize("validates", [False, True], ids=["alone", "with validation"])
@pytest.mark.parametrize(("bars", "pattern"), BARS.values(), ids=BARS.keys())
def test_a_bar_stays_whole(bars: Callable[[], list[Any]], pattern: str | None, validates: bool, tty: Emulator) -> None:
    used = trainer(Speaker(), *bars(), enable_progress_bar=bool(bars() and isinstance(bars()[0], ProgressBar)))
    with on(tty.stream):
        used.fit(Module(), loader(), loader(3) if validates else None)

    seen_whole(tty.lines, pattern)


@pytest.mark.parametrize(
    ("bar", "pattern"),
    [(TQDMProgressBar, r"Epoch 0:  [78]0%\|.*\| [78]/10 \[.*\]"), (RichProgressBar, r"Epoch 0/0 +━.* [78]/10 .*")],
)
def test_a_bar_stays_whole_when_the_fit_breaks(bar: type[ProgressBar], pattern: str, tty: Emulator) -> None:
    with pytest.raises(RuntimeError, match="broken"), on(tty.stream):
        trainer(Speaker(breaks=True), bar(), enable_progress_bar=True).fit(Module(), loader())

    seen_whole(tty.lines, pattern)


def test_paths_beside_a_rich_bar_can_be_copied_whole(tty: Emulator) -> None:
    with on(tty.stream):
        trainer(Speaker(), RichProgressBar(), enable_progress_bar=True).fit(Module(), loader(2))

    assert LONG_DIRECTORY + "report.json\r\n" in tty.raw


def test_perfwatch_itself_leaves_the_bar_whole(tty: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with on(tty.stream):
        fit(perfwatch(quiet=False), train=loader(30), others=[TQDMProgressBar()], enable_progress_bar=True)

    (title,) = (line for line in tty.lines if line.startswith("PerfWatch  Module"))
    before = tty.lines[: tty.lines.index(title)]
    assert [line for line in before if re.fullmatch(r"Epoch 0: 100%\|█+\| 30/30 \[.*\]", line.strip())]
    assert "the mean step" in tty.lines


def test_a_rich_bar_of_the_users_stays_below(tty: Emulator) -> None:
    with on(tty.stream), Progress(auto_refresh=False) as progress:
        progress.add_task("own bar", total=2, completed=1)
        progress.refresh()
        screen.say(LINE, sys.stdout)

    assert tty.lines[0] == LINE
    assert re.fullmatch(r"own bar ━.*50% .*", tty.lines[1])


class Printing(ProgressBar):
    """A bar of the user's that knows how to print."""

    def __init__(self) -> None:
        self.printed: list[str] = []

    def print(self, *args: Any, **kwargs: Any) -> None:
        self.printed += args


def test_a_bar_that_prints_by_itself_is_given_the_bare_line(tty: Emulator) -> None:
    bar = Printing()

    screen.say(LINE, tty.stream, bar)
    screen.say(LINE, None, bar)

    assert bar.printed == [LINE, LINE]
    assert tty.raw == ""


def test_a_bar_that_is_switched_off_hides_no_line(tty: Emulator) -> None:
    screen.say(LINE, tty.stream, TQDMProgressBar(refresh_rate=0))

    assert tty.lines == [LINE]


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("left", ["", ".", "..", "x" * 39, "x" * 40, "half\r"])
def test_a_line_begins_at_its_start_wherever_the_cursor_was(left: str, columns: int) -> None:
    with Emulator(columns) as emulator:
        emulator.stream.write(left)
        screen.say("PerfWatch says", emulator.stream)
        emulator.stream.write("next\n")
        kept = [] if left in ("", "half\r") else [left]
        assert emulator.lines == [*kept, "PerfWatch says", "next"]


def test_a_dumb_terminal_gets_no_control_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with Emulator(80) as emulator:
        screen.say(LINE, emulator.stream)
        terminal.show(report(), emulator.stream)
        assert "\x1b" not in emulator.raw
        assert emulator.lines[0] == LINE
        assert "the mean step" in emulator.lines


@pytest.mark.parametrize("bars", [[TQDMProgressBar()], []], ids=["tqdm", "none"])
def test_a_file_gets_every_line_at_its_start_and_no_escape(bars: list[Any], tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with log.open("w", encoding="utf-8") as stream, on(stream):
        trainer(Speaker(), *bars, enable_progress_bar=bool(bars)).fit(Module(), loader())

    text = log.read_text()
    assert f"\n{LINE}\n" in f"\n{text}"
    assert f"\n{terminal.render(report(directory=LONG_DIRECTORY))}" in f"\n{text}"
    assert "\x1b[3" not in text


def test_a_line_in_a_file_is_there_while_training_goes_on(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        screen.say(LINE, stream)
        assert (tmp_path / "log").read_text() == f"{LINE}\n"


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", "µ … · ██▍ ▏ 卷"),
        ("ascii", "u ... - ##- - ?"),
        ("cp1252", "µ … · ##- - ?"),
        ("no-such-encoding", "µ … · ██▍ ▏ 卷"),
    ],
)
def test_what_an_encoding_lacks_is_replaced(encoding: str, said: str) -> None:
    class Stream(io.StringIO):
        pass

    Stream.encoding = encoding
    stream = Stream()

    screen.write("µ … · ██▍ ▏ 卷", stream)

    assert stream.getvalue() == said


def closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


def test_a_closed_stream_is_no_terminal_and_has_no_width() -> None:
    assert not screen.is_terminal(closed())
    assert screen.columns_of(closed()) is None


def test_the_terminal_of_the_stream_tells_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    with Emulator(63) as emulator, Emulator(0) as unsized:
        assert screen.columns_of(emulator.stream) == 63
        assert screen.columns_of(unsized.stream) is None
        monkeypatch.setenv("COLUMNS", "0")
        assert screen.columns_of(emulator.stream) == 63
        monkeypatch.setenv("COLUMNS", "71")
        assert screen.columns_of(emulator.stream) == 71
    with Path(os.devnull).open("w") as stream:
        monkeypatch.delenv("COLUMNS")
        assert screen.columns_of(stream) is None
