# ruff: noqa: PLW0108 - each lambda marks the line of its call
"""Whose call it is that waits."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from site import getusersitepackages
from typing import Any

import pytest
import torch
from lightning.fabric.utilities.apply_func import convert_tensors_to_scalars

import lightning_perfwatch
from lightning_perfwatch.live.owners import find_owner, users_frame
from tests.live.test_syncs import ONE, audited, only_site

pytestmark = pytest.mark.usefixtures("nothing_compiled")

PACKAGE = Path(lightning_perfwatch.__file__).parent
INSTALLED = Path(sysconfig.get_path("purelib"))


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def defined_in(file: Path, code: str = "def function(t): return t.item()") -> Callable[..., Any]:
    """A function whose code says that it lies in ``file``."""
    namespace: dict[str, Any] = {}
    exec(compile(code, str(file), "exec"), namespace)
    function: Callable[..., Any] = namespace["function"]
    return function


def test_a_call_of_an_optimizer_is_the_optimizers_at_the_users_line() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.AdamW([weight], foreach=False)
    step = lambda: optimizer.step()  # noqa: E731

    sites = audited(step).sites

    assert {(site.owner, site.file, site.line) for site in sites} == {
        ("optimizer", __file__, step.__code__.co_firstlineno)
    }


def test_a_call_of_lightning_is_lightnings_at_the_users_line() -> None:
    site = only_site(lambda: convert_tensors_to_scalars({"loss": ONE}))
    line = here() - 1

    assert (site.call, site.owner, site.file, site.line) == (".item()", "lightning", __file__, line)


@pytest.mark.parametrize(
    ("place", "owner"),
    [
        ("some_library/metrics.py", "library"),
        ("single_file.py", "library"),
        ("torchmetrics/metric.py", "lightning"),
        ("pytorch_lightning/trainer/call.py", "lightning"),
        ("torch/nn/modules/linear.py", "user"),
        ("torch/optim/lamb.py", "optimizer"),
        ("torch_geometric/data.py", "library"),
    ],
)
def test_the_owner_goes_by_where_the_code_lies(place: str, owner: str) -> None:
    function = defined_in(INSTALLED / place)

    site = only_site(lambda: function(ONE))
    line = here() - 1

    assert (site.owner, site.file, site.line) == (owner, __file__, line)


@pytest.mark.parametrize(
    "file",
    [
        Path(f"{getusersitepackages()}-of-mine", "train.py"),
        PACKAGE.with_name(f"{PACKAGE.name}_mine") / "train.py",
        Path("a_script_of_mine.py"),
        Path("<ipython-input-3>"),
    ],
)
def test_code_that_lies_anywhere_else_is_the_users(file: Path) -> None:
    function = defined_in(file)

    site = only_site(lambda: function(ONE))

    assert (site.owner, site.file, site.line, site.code) == ("user", str(file), 1, None)


def test_the_innermost_library_is_the_owner() -> None:
    library = defined_in(INSTALLED / "some_library" / "core.py")
    lightning = defined_in(INSTALLED / "lightning" / "call.py", "def function(f, t): return f(t)")

    assert only_site(lambda: lightning(library, ONE)).owner == "library"


def test_a_stack_without_the_users_code_has_no_place() -> None:
    assert find_owner([]) == ("torch", None)


def test_perfwatchs_own_calls_are_its_own() -> None:
    own = defined_in(PACKAGE / "live" / "x.py")

    site = only_site(lambda: own(ONE))

    assert (site.owner, site.file, site.line) == ("perfwatch", None, None)


def test_the_users_frame_is_the_innermost_of_theirs_unless_lightning_lies_between() -> None:
    frame = sys._getframe()
    assert users_frame(frame) == (frame.f_code, frame.f_lineno)
    assert users_frame(None) is None
    seen: list[object] = []
    torch.utils._pytree.tree_map(lambda _: seen.append(users_frame(sys._getframe(1))), [1])
    lambdas_caller = seen[0]
    assert isinstance(lambdas_caller, tuple)
    assert lambdas_caller[0] is frame.f_code
    code = compile("def call(function): return function()", str(torch.optim.__file__), "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    scope["call"](lambda: seen.append(users_frame(sys._getframe(1))))
    assert seen[-1] is None, "an optimizer lies between"
