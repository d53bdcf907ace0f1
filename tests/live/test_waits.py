from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from lightning_perfwatch.live.waits import CONDITIONAL, WAITING_CALLS, waits

FAKES = FakeTensorMode()


def device_tensor(*shape: int) -> torch.Tensor:
    """A tensor that says it lies on an accelerator; it has no values."""
    with FAKES:
        return torch.empty(*shape, device="cuda")


def host_tensor(*shape: int) -> torch.Tensor:
    with FAKES:
        return torch.empty(*shape)


class Watch(TorchFunctionMode):
    """Notes the calls that wait, as torch hands them over."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name: str = func.__name__
        if waits(name, args, kwargs or {}):
            self.waited.append(name)
        return func(*args, **(kwargs or {}))


def waiting(call: Callable[[], object]) -> list[str]:
    with FAKES, Watch() as watch:
        call()
    waited: list[str] = watch.waited
    return waited


X: Any = device_tensor(4)
Y = device_tensor(4)
HOST: Any = host_tensor(4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.to("cpu"),
        lambda: X.to("cpu:0"),
        lambda: X.to(torch.device("cpu")),
        lambda: X.to(device="cpu"),
        lambda: X.to(HOST),
        lambda: X.to(tensor=HOST),
        lambda: X.to("cpu", torch.float64),
        lambda: X.to("cpu", non_blocking=False),
    ],
)
def test_moving_to_the_host_waits(call: Callable[[], object]) -> None:
    assert waiting(call) == ["to"]


@pytest.mark.parametrize("call", [lambda: HOST.copy_(X), lambda: HOST.copy_(X, False), lambda: HOST.copy_(other=X)])
def test_copying_into_a_tensor_of_the_host_waits(call: Callable[[], object]) -> None:
    assert waiting(call) == ["copy_"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.to("cuda"),
        lambda: X.to(X.device),
        lambda: X.to(Y),
        lambda: X.to(torch.float64),
        lambda: X.to("cpu", non_blocking=True),
        lambda: HOST.to("cuda"),
        lambda: HOST.to("cpu"),
        lambda: HOST.to(HOST.device),
        lambda: HOST.copy_(X, True),
        lambda: HOST.copy_(X, non_blocking=True),
        lambda: HOST.copy_(HOST),
        lambda: X.copy_(HOST),
        lambda: X.copy_(Y),
    ],
)
def test_moving_to_the_device_within_it_or_without_blocking_does_not_wait(call: Callable[[], object]) -> None:
    assert waiting(call) == []


def test_no_call_is_both_always_and_sometimes_waiting() -> None:
    assert not WAITING_CALLS & CONDITIONAL.keys()


@pytest.mark.parametrize("name", sorted(WAITING_CALLS | CONDITIONAL.keys()))
def test_every_name_is_one_that_torch_has(name: str) -> None:
    assert hasattr(torch.Tensor, name) or hasattr(torch, name)
