"""The README's commands run as they stand there: those of ``perfwatch``, and what the example is told to train."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from lightning_perfwatch.cli import main
from tests.reports.harness import fit, loader, perfwatch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINES = [
    line.partition("#")[0].strip().removeprefix("- run: ")
    for block in re.findall(r"```(?:bash|yaml)\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = [line for line in LINES if line.startswith("perfwatch ")]
TRAININGS = [line.partition("train.py ")[2] for line in LINES if "examples/train.py " in line]

RUN_DIRECTORIES = ("RUN_DIR", "PATH", "BEFORE", "AFTER", "perfwatch", "outputs/before/perfwatch",
                   "outputs/after/perfwatch")  # fmt: skip
BASELINES = ("FILE", "ci/baseline.json")
# What some commands end with here: no training goes on, and a machine may lack something.
EXIT_STATUS = {"trigger": {2}, "doctor": {0, 1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the same short run in every directory that a command names, and that run as the baseline."""
    folder = tmp_path_factory.mktemp("readme")
    first = folder / RUN_DIRECTORIES[0]
    fit(perfwatch(dir=first), train=loader(60), log_every_n_steps=2)
    for name in RUN_DIRECTORIES[1:]:
        shutil.copytree(first, folder / name)
    for name in BASELINES:
        (folder / name).parent.mkdir(exist_ok=True)
        assert main(["check", str(first), "--baseline", str(folder / name), "--update"]) == 0
    return folder


def words(command: str) -> list[str]:
    """A command's arguments as the shell would give them, with an id of a rule for ID."""
    given = shlex.split(command.replace("PATH...", "PATH").replace("explain ID", "explain host-sync"))[1:]
    return [path for word in given for path in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    arguments = words(command)

    assert main(arguments) in EXIT_STATUS.get(arguments[0], {0})
    said = capsys.readouterr()
    assert "usage:" not in said.err
    if "-o" in arguments:
        assert (folder / arguments[arguments.index("-o") + 1]).stat().st_size > 0
    elif arguments[0] != "trigger":
        assert said.out


@pytest.mark.parametrize("overrides", TRAININGS)
def test_the_example_knows_what_it_is_told_to_train(overrides: str) -> None:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        config = compose("train", overrides=shlex.split(overrides))

    assert f"trainer.max_steps={config.trainer.max_steps}" in shlex.split(overrides)


def test_no_block_of_code_is_left_untried() -> None:
    """Every kind of line that the README has is run here, in test_readme.py, in examples/ or by CI itself."""
    known = ("perfwatch ", ".venv/bin/python examples/t", ".venv/bin/python -m tests.benchmarks.", "python3 -m venv ")
    told = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]

    assert [line for line in told if line and not line.startswith(known)] == [".venv/bin/tensorboard --logdir outputs"]
    assert set(re.findall(r"```(\w+)\n", README)) == {"python", "bash", "yaml", "text"}
