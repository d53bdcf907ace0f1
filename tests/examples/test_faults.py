"""The planted faults do what their names say and leave the training as it was."""

import pytest
import torch
from faults.syncing import ItemEveryStepGPT
from gpt import GPT
from torch import Tensor


def training_loss(model: GPT, num_steps: int, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    monkeypatch.setattr(model, "log", lambda name, value: None)  # there is no Trainer to log to
    tokens = torch.arange(8).view(1, 8)
    return torch.stack(
        [model.training_step({"input_ids": tokens, "labels": tokens}, step) for step in range(num_steps)]
    )


def test_item_every_step_reads_each_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ItemEveryStepGPT(vocab_size=16, block_size=8, num_layers=1, num_heads=2, embedding_dim=8)
    model.on_fit_start()
    losses = training_loss(model, 3, monkeypatch)
    assert model.loss_curve == losses.tolist()


def test_item_every_step_trains_as_the_healthy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = GPT(vocab_size=16, block_size=8, num_layers=1, num_heads=2, embedding_dim=8, dropout=0.0)
    faulty = ItemEveryStepGPT(vocab_size=16, block_size=8, num_layers=1, num_heads=2, embedding_dim=8, dropout=0.0)
    faulty.load_state_dict(healthy.state_dict())
    faulty.on_fit_start()
    assert torch.equal(training_loss(faulty, 2, monkeypatch), training_loss(healthy, 2, monkeypatch))
