from __future__ import annotations

import pytest

from lightning_perfwatch.trace import op_costs
from lightning_perfwatch.trace.places import user_place
from tests.trace.factories import frame, op, trace


def test_the_innermost_function_of_the_user_around_most_of_the_operators() -> None:
    costs = op_costs(
        trace(
            frame("train.py(10): main", 0, 100),
            frame("/home/me/model.py(42): forward", 10, 50),
            frame("torch/nn/functional.py(7): gelu", 20, 30),
            op(22, 5, "mul"),
            op(30, 5, "mul"),
            op(70, 5, "mul"),
        )
    )
    assert user_place(costs.trace, costs.named("mul".__eq__)) == ("/home/me/model.py", 42)
    assert user_place(costs.trace, costs.named("none".__eq__)) is None


@pytest.mark.parametrize(
    "name",
    [
        "/env/lib/python3.11/site-packages/einops/einops.py(3): rearrange",
        "torch/_tensor.py(5): backward",
        "lightning/pytorch/loops/fit_loop.py(9): advance",
        "/usr/lib/python3.11/threading.py(1): run",
        "<string>(1): <module>",
        "<built-in method gelu of type object>",
        "nn.Module: GPT_0",
    ],
)
def test_frames_that_are_not_the_users(name: str) -> None:
    costs = op_costs(trace(frame(name, 0, 100), op(10, 5)))
    assert user_place(costs.trace, costs.named(lambda _: True)) is None


def test_without_frames_it_is_not_known() -> None:
    costs = op_costs(trace(op(10, 5)))
    assert user_place(costs.trace, costs.named(lambda _: True)) is None
