# ruff: noqa: PLW0108, T201 - each lambda marks the line of its call, and printing is one of the cases
"""The audit where ``torch.compile`` is at work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.utils

from lightning_perfwatch.live.syncs import SyncAudit, has_compiled, may_compile
from lightning_perfwatch.sync_sites import SyncSites

X = torch.tensor([3.0, 0.0, 1.0, 2.0])


@pytest.fixture
def compiled(nothing_compiled: None) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that has been compiled by now."""
    function = torch.compile(lambda x: x.sin() + x.cos(), backend="eager")
    assert not has_compiled()
    function(X)
    assert has_compiled()
    return function


def audited(step: Callable[[], Any]) -> SyncSites:
    audit = SyncAudit()
    for _ in range(2):
        audit.begin_step()
        try:
            step()
        finally:
            audit.end_step()
    sites = audit.sites()
    assert sites is not None
    return sites


def num_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def test_a_compiled_region_is_not_compiled_again_and_has_the_same_results(compiled: Any) -> None:
    results = [compiled(X)]
    graphs = num_graphs()

    sites = audited(lambda: results.append(compiled(X)))
    compiled(X)

    assert num_graphs() == graphs == 1
    assert torch.equal(results[0], results[1])
    assert sites == SyncSites(2, (), complete=False)


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (lambda: X.sum().item(), ".item()"),
        (lambda: X.tolist(), ".tolist()"),
        (lambda: X.cpu(), ".cpu()"),
        (lambda: X.nonzero(), ".nonzero()"),
        (lambda: print(X), "printing a tensor"),
        (lambda: f"{X}", "printing a tensor"),
        (lambda: f"{X.sum()}", "printing a tensor"),
        (lambda: repr(X), "printing a tensor"),
        (lambda: str(X.double()), "printing a tensor"),
    ],
)
def test_calls_outside_of_it_are_still_found_once_at_their_line(
    compiled: Any, step: Callable[[], Any], call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = audited(lambda: (compiled(X), step()))

    (site,) = sites.sites
    assert not sites.complete
    assert (site.call, site.owner, site.calls_per_step, site.in_every_step) == (call, "user", 1.0, True)
    assert (site.file, site.line) == (__file__, step.__code__.co_firstlineno)


def test_tensors_only_are_meant(compiled: Any) -> None:
    class Mine:
        def item(self) -> int:
            return 3

    assert audited(lambda: (Mine().item(), repr(Mine()), np.ones(1).item(), np.ones(2).tolist())).sites == ()


def test_the_profile_function_is_gone_after_the_step_also_when_an_exception_flies(compiled: Any) -> None:
    audit = SyncAudit()
    audit.begin_step()
    assert sys.getprofile() is not None
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0  # noqa: B018
        finally:
            audit.end_step()

    assert sys.getprofile() is None
    audit.end_step()
    assert audited(lambda: None).num_steps == 2


def test_a_profile_function_of_the_users_own_is_left_alone_and_nothing_is_audited(compiled: Any) -> None:
    def own(*_: object) -> None: ...

    audit = SyncAudit()
    sys.setprofile(own)
    try:
        audit.begin_step()
        X.sum().item()
        audit.end_step()
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)

    assert audit.sites() is None


def test_what_is_not_compiled_yet_is_watched_without_a_mode_too(nothing_compiled: None) -> None:
    assert not may_compile()  # importing torch and lightning alone asks for nothing
    torch.compile(lambda x: x + 1, backend="eager")

    assert may_compile()
    assert not has_compiled()
    audit = SyncAudit()
    audit.begin_step()
    assert torch._C._len_torch_function_stack() == 0
    audit.end_step()


def test_the_watch_itself_is_never_compiled() -> None:
    """A model that must not be compiled again goes on: the profile function runs inside of compiled regions."""
    function = torch.compile(lambda x: x * 2, backend="eager")
    function(X)
    audit = SyncAudit()
    with torch._dynamo.config.patch(error_on_recompile=True):
        audit.begin_step()
        function(X).sum().item()
        audit.end_step()

    (site,) = (audit.sites() or SyncSites(0)).sites
    assert (site.call, site.file) == (".item()", __file__)


def test_tensors_that_stay_on_the_host_wait_for_nothing(nothing_compiled: None) -> None:
    audit = SyncAudit()
    audit.begin_step()
    if torch.rand(()) < 2.0 and int(torch.randint(0, 3, (1,)) + 1) > 0:
        X.sum().item()
    audit.end_step()

    assert [site.call for site in (audit.sites() or SyncSites(0)).sites] == [".item()"]
