"""The example's GPT: it learns, it can't look ahead, and its head is its embedding."""

import math

import pytest
import torch
from gpt import GPT


def tiny_gpt(dropout: float = 0.0) -> GPT:
    torch.manual_seed(0)
    return GPT(
        vocab_size=16,
        block_size=8,
        num_layers=2,
        num_heads=2,
        embedding_dim=16,
        dropout=dropout,
        learning_rate=1e-2,
    )


def test_loss_falls() -> None:
    model = tiny_gpt(dropout=0.1)
    text = torch.arange(4 * 9).remainder(16).view(4, 9)
    batch = {"input_ids": text[:, :-1], "labels": text[:, 1:]}
    optimizer = model.configure_optimizers()
    first_loss = model.loss(batch)
    for _ in range(40):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
        optimizer.step()
    assert first_loss.item() == pytest.approx(math.log(16), abs=0.2)  # starts out knowing nothing
    assert loss < 0.5 * first_loss


def test_later_token_leaves_earlier_logits_unchanged() -> None:
    model = tiny_gpt()
    tokens = torch.randint(16, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 16
    logits, changed_logits = model(tokens), model(changed)
    torch.testing.assert_close(changed_logits[:, :5], logits[:, :5])
    assert not torch.allclose(changed_logits[:, 5:], logits[:, 5:])


def test_shorter_sequence_than_the_block_is_accepted() -> None:
    assert tiny_gpt()(torch.zeros(3, 5, dtype=torch.int64)).shape == (3, 5, 16)


def test_evaluation_drops_nothing() -> None:
    model = tiny_gpt(dropout=0.5)
    tokens = torch.randint(16, (2, 8))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_head_is_tied_to_the_embedding() -> None:
    model = tiny_gpt()
    assert model.head.weight is model.token_embedding.weight
    optimized = [p for group in model.configure_optimizers().param_groups for p in group["params"]]
    assert sum(p is model.head.weight for p in optimized) == 1
    assert len(optimized) == len(list(model.parameters()))


def test_heads_that_do_not_divide_the_embedding_are_refused() -> None:
    with pytest.raises(ValueError, match="embedding_dim=10 must be a multiple of num_heads=4"):
        GPT(vocab_size=16, block_size=8, num_layers=1, num_heads=4, embedding_dim=10)
