from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from lightning_perfwatch.finding import Where
from lightning_perfwatch.run_directory import RunDirectory
from tests.reporters.factories import finding, report
from tests.screenshots_terminal import terminal

REPOSITORY = Path(__file__).parents[1]


def test_the_picture_of_a_report_is_small_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    found = finding(where=Where(file=str(REPOSITORY / "examples" / "data.py"), line=64))
    RunDirectory(tmp_path / "run").write_report(report(findings=(found,), directory=str(tmp_path)))

    picture = terminal(tmp_path / "run", tmp_path / "pictures")

    text = picture.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    shown = " ".join("".join(ElementTree.fromstring(text).itertext()).split())
    for said in ("tokens/s", "dataloader-starvation", "examples/data.py:64", "outputs/perfwatch/report.json"):
        assert said in shown
    assert re.findall(r"(?:https?:)?//[^\s\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@font-face|@import|<script|<image|href", text)
    assert str(REPOSITORY) not in text
    assert str(tmp_path) not in text


def test_the_same_report_gives_the_same_picture(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").write_report(report())

    first = terminal(tmp_path / "run", tmp_path / "a").read_bytes()

    assert terminal(tmp_path / "run", tmp_path / "b").read_bytes() == first
