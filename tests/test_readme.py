"""The README's Python code does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from lightning_perfwatch import PerfWatch

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), flags=re.DOTALL)


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return torch.as_tensor(self.layer(batch).sum())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


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
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
        callbacks=[watch],
    )
    trainer.fit(Model(), DataLoader(torch.ones(20, 4), batch_size=2))  # type: ignore[arg-type]
    assert watch.report is not None
    found = [finding for finding in watch.report.findings if finding.rule == "small-batch"]
    assert [finding.summary for finding in found] == ["A batch holds 2 samples."]
