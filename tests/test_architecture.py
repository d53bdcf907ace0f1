"""The shape of the house: who may import whom, and what a start costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter import api

import lightning_perfwatch

ROOT = Path(__file__).parents[1]
PACKAGE = Path(lightning_perfwatch.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TRAINING_PROCESS = (
    "lightning_perfwatch.live",
    "lightning_perfwatch.callback",
    "lightning_perfwatch.reporters.tensorboard",
)
MOST_LINES = 300


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "lightning_perfwatch", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def test_the_contracts_of_pyproject_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert api.read_configuration()["contracts_options"], "the contracts are gone"
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_contract_makes_exceptions() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    assert "ignore_imports" not in settings


def test_there_are_no_import_cycles(graph: grimp.ImportGraph) -> None:
    inside = sorted(module for module in graph.modules if module.startswith("lightning_perfwatch"))
    cycles = [
        (module, other)
        for module in inside
        for other in graph.find_modules_directly_imported_by(module)
        if other in inside and graph.chain_exists(importer=other, imported=module)
    ]
    assert not cycles


def test_torch_and_lightning_are_imported_in_the_training_process_only(graph: grimp.ImportGraph) -> None:
    importers = graph.find_modules_that_directly_import("torch") | graph.find_modules_that_directly_import("lightning")
    assert importers, "the graph does not know torch"
    assert {module for module in importers if not module.startswith(TRAINING_PROCESS)} == set()


def test_a_rule_imports_no_other_rule(graph: grimp.ImportGraph) -> None:
    rules = graph.find_children("lightning_perfwatch.rules") - {"lightning_perfwatch.rules.rule"}
    assert rules
    for rule in rules:
        assert not graph.find_modules_directly_imported_by(rule) & rules


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_says_what_it_owns_and_stays_readable(path: Path) -> None:
    source = path.read_text()
    assert ast.get_docstring(ast.parse(source))
    assert len(source.splitlines()) <= MOST_LINES
    assert path.stem not in ("utils", "util", "common", "helpers", "types", "constants", "misc")


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, lightning_perfwatch; print([m for m in ('torch', 'lightning', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_listing_the_rules_imports_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "lightning_perfwatch", "rules"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "host-sync" in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "numpy" in imported
    assert imported.isdisjoint({"torch", "lightning", "pytorch_lightning", "tensorboard", "rich", "omegaconf", "bokeh"})


def test_the_public_names_are_few_and_all_there() -> None:
    names = lightning_perfwatch.__all__
    assert len(names) <= 12
    assert all(getattr(lightning_perfwatch, name) is not None for name in names)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lightning_perfwatch.nonsense


def test_ci_runs_the_command_that_the_readme_gives() -> None:
    command = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/python -m pytest"
    assert f"```bash\n{command}\n```" in (ROOT / "README.md").read_text()
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == command
