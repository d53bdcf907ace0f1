"""The README's Python code does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lightning_perfwatch import PerfWatch
from tests.reports.harness import fit

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), flags=re.DOTALL)


def run(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(text, "README.md", "exec", dont_inherit=True), namespace)
    return namespace


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
