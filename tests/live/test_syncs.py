# ruff: noqa: PLW0108, T201 - each lambda marks the line of its call, and printing is one of the cases
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_perfwatch.live.syncs import SyncAudit
from lightning_perfwatch.live.waits import CONDITIONAL, WAITING_CALLS
from lightning_perfwatch.sync_sites import SyncSite, SyncSites

pytestmark = pytest.mark.usefixtures("nothing_compiled")

X = torch.tensor([3.0, 0.0, 1.0, 2.0])
ONE = torch.tensor(2)
W = torch.nn.Parameter(torch.ones(4))
W.grad = torch.ones(4)
MASK = X > 1
COUNTS = torch.tensor([1, 0, 2, 1])

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "item": (lambda: ONE.item(), ".item()"),
    "tolist": (lambda: X.tolist(), ".tolist()"),
    "numpy": (lambda: X.numpy(), ".numpy()"),
    "cpu": (lambda: X.cpu(), ".cpu()"),
    "nonzero": (lambda: torch.nonzero(MASK), ".nonzero()"),
    "argwhere": (lambda: MASK.argwhere(), ".argwhere()"),
    "masked_select": (lambda: X.masked_select(MASK), ".masked_select()"),
    "unique": (lambda: torch.unique(X), ".unique()"),
    "unique_consecutive": (lambda: torch.unique_consecutive(X), ".unique_consecutive()"),
    "is_nonzero": (lambda: torch.is_nonzero(ONE), ".is_nonzero()"),
    "equal": (lambda: torch.equal(X, X), ".equal()"),
    "allclose": (lambda: X.allclose(X), ".allclose()"),
    "bincount": (lambda: torch.bincount(COUNTS), ".bincount()"),
    "__bool__": (lambda: 1 if ONE else 0, "bool(tensor)"),
    "__int__": (lambda: int(ONE), "int(tensor)"),
    "__float__": (lambda: float(ONE), "float(tensor)"),
    "__index__": (lambda: "abc"[ONE], "use as an index"),
    "__complex__": (lambda: complex(ONE), "complex(tensor)"),
    "__contains__": (lambda: 3.0 in X, "in tensor"),
    "__array__": (lambda: np.asarray(X), "conversion to numpy"),
    "__format__": (lambda: f"{X}", "printing a tensor"),
    "__repr__": (lambda: repr(X), "printing a tensor"),
    "__str__": (lambda: str(X), "printing a tensor"),
    "__getitem__": (lambda: X[MASK], "indexing with a boolean mask"),
    "__setitem__": (lambda: X.clone().__setitem__(MASK, X[:2]), "assignment through a boolean mask"),
    "where": (lambda: torch.where(MASK), ".where()"),
    "repeat_interleave": (lambda: X.repeat_interleave(COUNTS), ".repeat_interleave()"),
}
NOT_ON_CPU = {"to", "copy_"}

MORE_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "print": (lambda: print(X), "printing a tensor"),
    "percent": (lambda: "%s" % X, "printing a tensor"),  # noqa: UP031 - that is the case
    "mask among indices": (lambda: X.view(2, 2)[:, torch.tensor([True, False])], "indexing with a boolean mask"),
    "repeats alone": (lambda: torch.repeat_interleave(COUNTS), ".repeat_interleave()"),
    "repeats by name": (lambda: torch.repeat_interleave(X, repeats=COUNTS), ".repeat_interleave()"),
    "within torch": (lambda: torch.nn.utils.clip_grad_norm_([W], 1.0, error_if_nonfinite=True), "bool(tensor)"),
}  # fmt: skip

HEALTHY: dict[str, Callable[[], Any]] = {
    "to the same device": lambda: X.to(X.device),
    "to another type": lambda: X.to(torch.float64),
    "index": lambda: X[2],
    "slices": lambda: X.view(2, 2)[:, 1:],
    "places": lambda: X[COUNTS],
    "fill a mask": lambda: X.masked_fill(MASK, 0.0),
    "assign a number by mask": lambda: X.clone().__setitem__(MASK, 0.0),
    "assign a scalar by mask": lambda: X.clone().__setitem__(MASK, torch.tensor(0.0)),
    "assign by place": lambda: X.clone().__setitem__(COUNTS, X),
    "choose": lambda: torch.where(MASK, X, 0.0),
    "repeat by a number": lambda: X.repeat_interleave(2),
    "repeat to a known size": lambda: X.repeat_interleave(COUNTS, output_size=4),
    "detach": lambda: X.detach().clone().copy_(X),
    "shape": lambda: (X.shape, len(X), X.numel(), X.dtype, X.device, X.is_floating_point()),
    "iterate": lambda: list(X),
    "train": lambda: torch.autograd.backward(torch.nn.functional.cross_entropy((W * X).view(2, 2), COUNTS[:2])),
}


def audited(*steps: Callable[[], Any]) -> SyncSites:
    audit = SyncAudit()
    for step in steps:
        audit.begin_step()
        try:
            step()
        finally:
            audit.end_step()
    sites = audit.sites()
    assert sites is not None
    return sites


def only_site(*steps: Callable[[], Any]) -> SyncSite:
    (site,) = audited(*steps).sites
    return site


@pytest.mark.parametrize("step", HEALTHY.values(), ids=HEALTHY.keys())
def test_healthy_code_is_silent(step: Callable[[], Any]) -> None:
    assert replace(audited(step), busiest=()) == SyncSites(1, (), complete=True)


def test_the_busiest_lines_of_the_user_are_counted_whatever_they_call() -> None:
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step() -> None:
        for _ in range(40):
            torch.nn.functional.relu(weight)
        optimizer.step()

    busiest = audited(step, step).busiest
    assert (busiest[0].function, busiest[0].calls_per_step) == ("step", 40)
    assert (busiest[0].file, busiest[0].line) == (__file__, step.__code__.co_firstlineno + 2)
    assert sum(site.calls_per_step for site in busiest) < 45, "the optimizer's calls are its own"


@pytest.mark.parametrize(("step", "call"), [*CALLS.values(), *MORE_CALLS.values()], ids=[*CALLS, *MORE_CALLS])
def test_every_call_that_waits_is_seen_once_at_its_line(
    step: Callable[[], Any], call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site = only_site(step)

    assert (site.call, site.owner, site.device_type) == (call, "user", "cpu")
    assert (site.file, site.line, site.function) == (__file__, step.__code__.co_firstlineno, "<lambda>")
    assert site.code == Path(__file__).read_text().splitlines()[step.__code__.co_firstlineno - 1].strip()
    assert site.calls_per_step == 1.0
    assert site.s_per_step > 0


def test_no_waiting_call_is_left_untested() -> None:
    assert CALLS.keys() == (WAITING_CALLS | CONDITIONAL.keys()) - NOT_ON_CPU


def test_calls_are_counted_per_step_and_lines_are_told_apart() -> None:
    def often() -> None:
        for _ in range(3):
            X.sum().item()

    def once() -> None:
        ONE.item()

    def both() -> None:
        often()
        once()

    sites = audited(both, often)

    found = {site.function: (site.calls_per_step, site.in_every_step) for site in sites.sites}
    assert sites.num_steps == 2
    assert found == {"often": (3.0, True), "once": (0.5, False)}


def test_the_most_expensive_site_comes_first() -> None:
    large = torch.zeros(3_000_000)

    sites = audited(lambda: (ONE.item(), large.tolist(), ONE.item())).sites

    assert [site.call for site in sites] == [".tolist()", ".item()"]


def test_results_are_what_they_are_without_an_audit() -> None:
    def step() -> list[Any]:
        torch.manual_seed(0)
        noise = torch.randn(4, requires_grad=True)
        torch.autograd.backward(noise.exp()[MASK].sum())
        return [
            noise.grad,
            torch.where(MASK),
            f"{noise}",
            noise.sum().item(),
            X.repeat_interleave(COUNTS),
            torch.rand(3),
        ]

    results: list[list[Any]] = [step()]
    audited(lambda: results.append(step()))

    assert repr(results[0]) == repr(results[1])


def test_where_no_step_was_audited_nothing_is_known() -> None:
    audit = SyncAudit()
    audit.end_step()

    assert audit.sites() is None


def test_the_mode_is_gone_after_the_step_also_when_an_exception_flies() -> None:
    audit = SyncAudit()
    audit.begin_step()
    audit.begin_step()
    assert torch._C._len_torch_function_stack() == 1
    with pytest.raises(ZeroDivisionError):
        try:
            ONE.item() / 0
        finally:
            audit.end_step()
    audit.end_step()

    assert torch._C._len_torch_function_stack() == 0
    sites = audit.sites()
    assert sites is not None
    assert sites.num_steps == 1
    ONE.item()
    assert audit.sites() == sites


def test_a_call_that_fails_raises_its_own_error_into_the_users_code() -> None:
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        audited(lambda: X.item())


def test_a_mode_of_the_users_own_stays_where_it_is() -> None:
    with torch.device("meta"):
        site = only_site(lambda: (torch.empty(3), ONE.item()))
        assert torch._C._len_torch_function_stack() == 1

    assert site.call == ".item()"
