"""The README's pictures, taken from a short real run: ``python -m tests.screenshots [FOLDER] [--only NAME]``.

Owns which pictures there are and the run that they show. A new one is a function in :data:`PICTURES`, which gets a
:class:`Studio` and the folder to write into.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lightning_perfwatch.reporters import render
from lightning_perfwatch.run_directory import RunDirectory
from tests.browser import Browser, chromium, why_missing
from tests.screenshots_terminal import terminal

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "screenshots"
EXPERIMENT = "dataloader_starvation"
MOST_BYTES = 200_000
_SIZE = (1120, 980)
_NUM_COLOURS = 128
_DRAWN = "return performance.getEntriesByName('perfwatch-drawn').length > 0"


@dataclass(frozen=True)
class Studio:
    """A finished run and a browser. ``log_dir`` is what TensorBoard shows; ``run_directory`` is the run's, below it."""

    browser: Browser
    log_dir: Path
    run_directory: RunDirectory


def page(studio: Studio, file: Path, scheme: str, part: str) -> None:
    """The report page in a colour scheme, with ``part`` at the top."""
    source = studio.log_dir / "page.html"
    source.write_text(render(studio.run_directory.read_report(), "html"), encoding="utf-8")
    studio.browser.prefer(scheme)
    studio.browser.resize(_SIZE)
    studio.browser.open(source)
    studio.browser.wait_for(_DRAWN)
    studio.browser.run("document.querySelector(arguments[0]).scrollIntoView()", part)
    file.write_bytes(small(studio.browser.picture()))


def tab(studio: Studio, file: Path) -> None:
    """The PerfWatch tab in TensorBoard, with the report's charts drawn."""
    studio.browser.prefer("light")
    studio.browser.resize(_SIZE)
    with tensorboard(studio.log_dir) as address:
        studio.browser.open(f"{address}/#perfwatch")
        studio.browser.wait_for("return document.querySelector('iframe') !== null")
        studio.browser.driver.switch_to.frame(studio.browser.find("iframe"))
        studio.browser.wait_for("return document.querySelector('iframe') !== null")
        studio.browser.driver.switch_to.frame(studio.browser.find("iframe"))
        studio.browser.wait_for(_DRAWN)
        studio.browser.driver.switch_to.default_content()
        file.write_bytes(small(studio.browser.picture()))


PICTURES: dict[str, Callable[[Studio, Path], object]] = {
    "page-light": lambda studio, folder: page(studio, folder / "page-light.png", "light", "header"),
    "page-dark": lambda studio, folder: page(studio, folder / "page-dark.png", "dark", "#throughput"),
    "tab": lambda studio, folder: tab(studio, folder / "tab.png"),
    "terminal": lambda studio, folder: terminal(studio.run_directory.path, folder),
}


def train(log_dir: Path) -> RunDirectory:
    """A short run of the example below ``log_dir``, as if it had been started in the project's folder.

    The stored report names files as seen from there, so that pictures don't tell where they were taken.
    """
    output_dir = log_dir / EXPERIMENT
    command = [sys.executable, "examples/train.py", f"experiment={EXPERIMENT}", "trainer.max_steps=60"]
    subprocess.run([*command, f"hydra.run.dir={output_dir}"], cwd=ROOT, check=True)
    directory = RunDirectory(output_dir / "perfwatch")
    text = directory.report_file.read_text(encoding="utf-8")
    directory.report_file.write_text(text.replace(f"{log_dir}/", "outputs/").replace(f"{ROOT}/", ""), encoding="utf-8")
    return directory


@contextmanager
def tensorboard(log_dir: Path) -> Iterator[str]:
    """TensorBoard on a free port of this machine, showing ``log_dir``; gives its address.

    Raises:
        RuntimeError: it did not say where it listens.
    """
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(log_dir), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    yield found.group()
                    return
            raise RuntimeError("TensorBoard ended without saying where it listens.")
        finally:
            process.terminate()


def small(png: bytes) -> bytes:
    """The same picture in fewer colours.

    Raises:
        ValueError: it is too large for the repository all the same.
    """
    stored = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(_NUM_COLOURS).save(stored, "PNG", optimize=True)
    if stored.tell() > MOST_BYTES:
        raise ValueError(f"A picture has {stored.tell():,} bytes, more than {MOST_BYTES:,}: show less in it.")
    return stored.getvalue()


def main() -> int:
    """Train, and store every picture that is asked for."""
    parser = argparse.ArgumentParser(description="Take the README's pictures from a short real run.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--only", choices=PICTURES, action="append", help="take this picture only; may be repeated")
    asked = parser.parse_args()
    if reason := why_missing():
        sys.stderr.write(f"{reason}\n")
        return 2
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        studio = Studio(browser, Path(folder), train(Path(folder)))
        for name in asked.only or PICTURES:
            PICTURES[name](studio, asked.folder)
    for file in sorted(asked.folder.iterdir()):
        sys.stdout.write(f"{file}: {file.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
