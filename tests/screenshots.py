"""The README's pictures, taken from a short real run: ``python -m tests.screenshots [FOLDER] [--only NAME]``.

Owns which pictures there are and how they are stored. A new one is a function in :data:`PICTURES` that gets a
:class:`Studio` and returns a PNG.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lightning_perfwatch.report import Report, from_json
from lightning_perfwatch.reporters import render
from tests.browser import Browser, chromium, why_missing

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "screenshots"
RUN = ("experiment=dataloader_starvation", "trainer.max_steps=60")
MOST_BYTES = 200_000
_NUM_COLOURS = 128
_DRAWN = "return performance.getEntriesByName('perfwatch-drawn').length > 0"


@dataclass(frozen=True)
class Studio:
    """A finished run and a browser. ``log_dir`` is what TensorBoard shows; ``run_directory`` lies in it."""

    browser: Browser
    log_dir: Path
    run_directory: Path

    def report(self) -> Report:
        """The run's report, with paths as seen from the project's folder and from the run's."""
        text = (self.run_directory / "report.json").read_text()
        return from_json(text.replace(f"{self.log_dir}/", "outputs/").replace(f"{ROOT}/", ""))


def page(studio: Studio, scheme: str, size: tuple[int, int], part: str = "h1") -> bytes:
    """The report page in a colour scheme, with ``part`` at the top."""
    file = studio.log_dir / "screenshot.html"
    file.write_text(render(studio.report(), "html"), encoding="utf-8")
    studio.browser.prefer(scheme)
    studio.browser.resize(size)
    studio.browser.open(file)
    studio.browser.wait_for(_DRAWN)
    if part != "h1":
        studio.browser.run("document.querySelector(arguments[0]).scrollIntoView()", part)
    return studio.browser.picture()


PICTURES: dict[str, Callable[[Studio], bytes]] = {
    "page-light": lambda studio: page(studio, "light", (1120, 980)),
    "page-dark": lambda studio: page(studio, "dark", (1120, 980), part="#throughput"),
}


def train(log_dir: Path) -> Path:
    """A short run of the example into ``log_dir``; its run directory."""
    command = [sys.executable, "examples/train.py", *RUN, f"hydra.run.dir={log_dir}"]
    subprocess.run(command, cwd=ROOT, check=True)
    return log_dir / "perfwatch"


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
    with tempfile.TemporaryDirectory() as log_dir, chromium() as browser:
        studio = Studio(browser, Path(log_dir), train(Path(log_dir)))
        for name in asked.only or PICTURES:
            file = asked.folder / f"{name}.png"
            file.write_bytes(small(PICTURES[name](studio)))
            sys.stdout.write(f"{file}: {file.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
