"""What holds after every test, whatever it was about."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No profiler runs on, no profile function and no function mode stays installed."""
    profile_function = sys.getprofile()
    yield
    left = sys.getprofile()
    sys.setprofile(profile_function)
    assert left is profile_function
    torch = sys.modules.get("torch")
    if torch is not None:
        assert not torch._C._autograd._profiler_enabled()
        assert torch._C._len_torch_function_stack() == 0
