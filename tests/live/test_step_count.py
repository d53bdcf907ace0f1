"""Counting real steps: against closed forms, beside checkpointing and torch.compile, and without a trace in results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.utils
from gpt import GPT
from torch import nn
from torch.utils.checkpoint import checkpoint

from lightning_perfwatch.live.flops import StepFlops
from lightning_perfwatch.live.step_count import StepCount

LAYERS, WIDTH, LENGTH, VOCABULARY, SAMPLES = 2, 64, 48, 256, 3


@pytest.fixture(autouse=True)
def nothing_compiled_before(nothing_compiled: None) -> Iterator[None]:
    yield


def counted(step: Callable[[], Any], rival: Callable[[], str | None] = lambda: None) -> StepFlops:
    count = StepCount(["cpu"], rival)
    count.begin_step()
    try:
        step()
    finally:
        count.end_step()
    assert count.result is not None
    return count.result


def gpt(dropout: float = 0.0, tied: bool = True) -> GPT:
    torch.manual_seed(0)
    model = GPT(
        vocab_size=VOCABULARY,
        block_size=LENGTH,
        num_layers=LAYERS,
        num_heads=2,
        embedding_dim=WIDTH,
        dropout=dropout,
    )
    if not tied:
        model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model


def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(0, VOCABULARY, (SAMPLES, LENGTH), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids}


def backward(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def closed_form() -> float:
    """Forward and backward: 6 FLOPs per matrix weight and token, and 12 T C per layer and token for attention.

    Chowdhery et al. 2022 (PaLM), appendix B, in which causal attention counts in full. A layer has 12 C² weights in
    matrices; the head has V C, tied or not; looking an embedding up is no product.
    """
    num_weights = LAYERS * 12 * WIDTH**2 + VOCABULARY * WIDTH
    per_token = 6 * num_weights + 12 * LAYERS * LENGTH * WIDTH
    return float(per_token * SAMPLES * LENGTH)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dropout", [0.0, 0.1], ids=["fused attention", "attention by products"])
def test_the_example_gpt_agrees_with_the_closed_form(tied: bool, dropout: float) -> None:
    """torchtitan#452, trl#6708, PT#195460: no embedding lookup counted, no tied head lost, no attention left out."""
    model, data = gpt(dropout, tied), batch()

    result = counted(lambda: backward(model.loss(data)))

    assert result.flops == pytest.approx(closed_form(), rel=0.01)
    assert (result.dtype, result.reason) == ("fp32", None)


def test_a_half_precision_step_is_told_by_its_operators() -> None:
    model, data = gpt(), batch()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model.loss(data)
        backward(loss)

    result = counted(step)
    assert result.dtype == "bf16"
    assert result.flops == pytest.approx(closed_form(), rel=0.01)


@pytest.mark.parametrize("reentrant", [False, True], ids=["saved tensor hooks", "reentrant"])
def test_activation_checkpointing_adds_no_model_flops(reentrant: bool) -> None:
    model, data = gpt(), batch()
    plain = counted(lambda: backward(model.loss(data))).flops
    blocks = list(model.blocks)

    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=reentrant)
        return x

    model.blocks.forward = checkpointed  # type: ignore[method-assign]
    assert counted(lambda: backward(model.loss(data))).flops == plain


def test_a_gradient_penalty_counts() -> None:
    layer = nn.Linear(8, 8, bias=False)
    x = torch.randn(4, 8, requires_grad=True)

    def step() -> None:
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        backward(gradient.square().sum())

    product = 2 * 4 * 8 * 8
    assert counted(step).flops == 6 * product


def test_a_teacher_without_gradients_counts_and_an_optimizer_of_products_does_not() -> None:
    teacher, student = nn.Linear(8, 8), nn.Linear(8, 8)
    x = torch.randn(4, 8)

    class ByProducts(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            loss = super().step(closure)
            with torch.no_grad():
                student.weight.copy_(student.weight @ torch.eye(8))
            return loss

    optimizer = ByProducts(student.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = teacher(x)
        loss = nn.functional.mse_loss(student(x), wanted)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    product = 2 * 4 * 8 * 8
    assert counted(lambda: optimizer.step(closure)).flops == 3 * product  # teacher, student, the student's weight


def test_convolutions_agree_with_the_closed_form() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.ReLU(), nn.ConvTranspose2d(8, 2, 2, stride=2))
    x = torch.randn(3, 4, 10, 10)

    first = 2 * 3 * 100 * 8 * 2 * 9
    second = 2 * 3 * 100 * 8 * 2 * 4
    result = counted(lambda: model(x).sum().backward())
    assert result.flops == 2 * first + 3 * second  # the images need no gradient


@pytest.mark.parametrize("recompute", [False, True], ids=["plain", "with checkpointing"])
def test_a_compiled_model_is_counted_without_compiling_it_again(recompute: bool) -> None:
    """PT#140909, PT#128199: a dispatch mode around a compiled model leaves it slow, or crashes."""
    model, data = gpt(), batch()
    blocks = list(model.blocks)
    if recompute:

        def checkpointed(x: torch.Tensor) -> torch.Tensor:
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

        model.blocks.forward = checkpointed  # type: ignore[method-assign]
    compiled = torch.compile(model, backend="aot_eager")

    def step() -> torch.Tensor:
        model.zero_grad()
        loss = nn.functional.cross_entropy(compiled(data["input_ids"]).flatten(0, 1), data["labels"].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    assert "torch.compile was at work" in str(counted(step).reason)
    before, graphs = step(), torch._dynamo.utils.counters["stats"]["unique_graphs"]
    losses = []
    result = counted(lambda: losses.append(step()))

    assert result.flops == pytest.approx(closed_form(), rel=0.01)
    assert torch.equal(losses[0], before)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_a_compiler_that_hides_its_products_is_named(mode: str) -> None:
    torch.compile(lambda x: x + 1, mode=mode)

    result = counted(lambda: torch.ones(2, 2) @ torch.ones(2, 2))

    assert result.flops is None
    assert "torch.compile with" in str(result.reason)


def trained(model: nn.Module, x: torch.Tensor, watched: bool) -> list[torch.Tensor]:
    """Losses, parameters, buffers and the random state after three steps, of which the second is counted."""
    torch.manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    count = StepCount(["cpu"], lambda: None)
    for number in range(3):
        if watched and number == 1:
            count.begin_step()
        optimizer.zero_grad()
        output = model(x)
        loss = (output[0] if isinstance(output, tuple) else output).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.detach())
        if watched and number == 1:
            count.end_step()
            assert count.result is not None
    return [*losses, *(p.detach() for p in model.parameters()), *model.buffers(), torch.get_rng_state()]


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
        lambda: nn.LSTM(32, 16, num_layers=2, dropout=0.1),
        lambda: nn.Sequential(nn.Conv1d(16, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2)),
    ],
    ids=["transformer", "lstm", "batch norm"],
)
def test_the_counted_step_is_bitwise_the_same(make: Callable[[], nn.Module]) -> None:
    x = torch.randn(4, 16, 32, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    watched = trained(make(), x, watched=True)
    torch.manual_seed(1)
    alone = trained(make(), x, watched=False)

    assert all(torch.equal(one, other) for one, other in zip(watched, alone, strict=True))


def test_nothing_is_recorded_beside_another_profiler() -> None:
    assert "the Trainer's profiler" in str(counted(lambda: None, rival=lambda: "the Trainer's profiler").reason)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as users:
        result = counted(lambda: torch.ones(2, 2) @ torch.ones(2, 2))
    assert "another profiler" in str(result.reason)
    assert "aten::mm" in {event.key for event in users.key_averages()}


def test_a_profiler_that_is_started_within_the_step_has_it_to_itself() -> None:
    seen: set[str] = set()

    def step() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as users:
            torch.ones(2, 2) @ torch.ones(2, 2)
        seen.update(event.key for event in users.key_averages())

    assert "another profiler was started" in str(counted(step).reason)
    assert "aten::mm" in seen


def test_a_step_that_breaks_off_leaves_no_profiler_running() -> None:
    count = StepCount(["cpu"], lambda: None)
    count.begin_step()
    assert torch._C._autograd._profiler_enabled()
    count.discard()
    assert not torch._C._autograd._profiler_enabled()
    assert count.result is None
