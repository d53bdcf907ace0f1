import inspect
from collections.abc import Iterator

import pytest
import torch

from lightning_perfwatch.live.compile_watch import CompileWatch


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 2


def test_a_process_that_compiles_nothing_says_so() -> None:
    watch = CompileWatch()
    assert not watch.step_ended(0)
    assert watch.compilations(lambda step: None) == ()


def test_what_was_compiled_before_the_fit_is_no_concern_of_it() -> None:
    torch.compile(double, backend="eager")(torch.ones(2))
    watch = CompileWatch()
    assert not watch.step_ended(0)
    assert watch.compilations(lambda step: None) == ()


def test_compilations_are_told_by_step_with_their_reason_and_place() -> None:
    watch = CompileWatch()
    compiled = torch.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    assert watch.step_ended(0)
    compiled(torch.ones(2))
    assert not watch.step_ended(1)
    compiled(torch.ones(3))
    assert watch.step_ended(2)
    first, second = watch.compilations(lambda step: 5.0 + step)
    assert (first.step, first.function, first.reason) == (0, "double", None)
    assert (second.step, second.function) == (2, "double")
    assert second.reason is not None
    assert "size mismatch at index 0. expected 2, actual 3" in second.reason
    assert (second.file, second.line) == (__file__, inspect.getsourcelines(double)[1])
    assert second.compile_s > 0
    assert (first.step_s, second.step_s) == (5.0, 7.0)
