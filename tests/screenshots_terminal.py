"""The report on a terminal as a picture: an SVG that needs no font and no address from outside."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from lightning_perfwatch.reporters import terminal as reporter
from lightning_perfwatch.run_directory import RunDirectory

FILE_NAME = "terminal.svg"

_COLUMNS = 100
_REPOSITORY = f"{Path(__file__).parents[1]}/"
_SHOWN_DIRECTORY = "outputs/perfwatch"
_CODE_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="A PerfWatch report">
<style>
.{unique_id}-matrix, .{unique_id}-title {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font-weight: bold }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def terminal(run_dir: Path, folder: Path) -> Path:
    """Draw the report of ``run_dir`` as a terminal of 100 columns shows it, into ``folder``; gives the file's path.

    Places in the repository are shown relative to it, and the run directory by a short name, so that the picture does
    not depend on where it was made.
    """
    report = replace(RunDirectory(run_dir).read_report(), directory=_SHOWN_DIRECTORY)
    text = reporter.render(report, width=_COLUMNS, color=True).replace(_REPOSITORY, "")
    console = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    path.write_text(
        console.export_svg(title="perfwatch", code_format=_CODE_FORMAT, unique_id="perfwatch"), encoding="utf-8"
    )
    return path
