"""The README's Python code does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from lightning_perfwatch import PerfWatch, Schedule, Triggers
from lightning_perfwatch.cli import main
from tests.reports.harness import fit, made_by_cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)


def run(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(text, "README.md", "exec", dont_inherit=True), namespace)
    return namespace


def test_the_first_lines_watch_a_training() -> None:
    trainer = run(BLOCKS[0])["trainer"]

    assert any(isinstance(callback, PerfWatch) for callback in trainer.callbacks)


def test_a_rule_of_the_users_own_is_asked_beside_the_others(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "class SmallBatch" in block)
    code = [line for line in block.partition("@dataclass")[2].partition("watch =")[0].splitlines() if line.strip()]
    assert len(code) <= 15
    given = run(block)["watch"]
    watch = PerfWatch(rules=given.config.rules, dir=tmp_path, quiet=True)
    fit(watch)
    assert watch.report is not None
    found = [finding for finding in watch.report.findings if finding.rule == "small-batch"]
    assert [finding.summary for finding in found] == ["A batch holds 2 samples."]


def test_the_trace_from_elsewhere_is_recorded_and_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in BLOCKS if "export_chrome_trace" in block)
    run(block)

    assert main(["analyze", "trace.json"]) == 0
    printed = capsys.readouterr().out
    assert "aten::" in printed
    assert "5 steps" in printed


def test_the_settings_in_yaml_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (settings,) = (block for block in YAML if "# perfwatch.yaml" in block)
    (tmp_path / "perfwatch.yaml").write_text(settings)
    (block,) = (block for block in BLOCKS if "from_config" in block)

    watch = run("from lightning_perfwatch import PerfWatch\n" + block)["watch"]
    assert watch.config.schedule.repeat == 2


def test_hydra_takes_the_settings_as_they_stand_there() -> None:
    (block,) = (block for block in YAML if "_target_" in block)
    watch = instantiate(OmegaConf.create(block)).perfwatch

    assert isinstance(watch, PerfWatch)
    assert watch.config.schedule.active == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lightning_cli_takes_the_settings_as_they_stand_there(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in YAML if "class_path" in block)
    arguments: Any = OmegaConf.to_container(OmegaConf.create(block))
    watch = made_by_cli(arguments["trainer"]["callbacks"], monkeypatch)

    assert (watch.config.tokens, watch.config.schedule.active) == ("input_ids", 3)


def test_the_defaults_in_the_table_are_those_of_the_code() -> None:
    for given in (Schedule(), Triggers()):
        assert f"`{given!r}`" in README


def test_every_example_that_is_named_is_there() -> None:
    named = set(re.findall(r"examples/\w+\.py", README))
    assert named
    assert all((ROOT / path).is_file() for path in named)
    examples = set(re.findall(r"examples/tour\.py (\w+)", README))
    assert examples == {"attention", "timing", "loading", "reading"}
    for experiment in re.findall(r"experiment=(\w+)", README):
        assert (ROOT / f"configs/experiment/{experiment}.yaml").is_file()


def test_what_is_said_of_the_window_is_so() -> None:
    """The default window, and the one that looks earlier, in steps counted from 0."""
    assert Schedule().window(Schedule().skip_first + Schedule().wait) == range(22, 27)
    assert "over after step 26" in README
    early = Schedule(skip_first=2, wait=3, warmup=1, active=3)
    assert "Schedule(skip_first=2, wait=3, warmup=1, active=3)" in README
    assert early.end < 10


def test_every_picture_is_there_small_and_told_in_words() -> None:
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README)
    assert pictures
    for words, path in pictures:
        assert len(words) > 20
        assert (ROOT / path).stat().st_size < 200_000
