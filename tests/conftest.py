"""What holds after every test, whatever it was about, and the browser that tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser import Browser


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


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[Browser]:
    """One browser for all tests, as a start takes seconds."""
    from tests.browser import chromium, why_missing

    if reason := why_missing():
        pytest.skip(reason)
    with chromium() as started:
        yield started


@pytest.fixture
def browser(shared_browser: Browser) -> Browser:
    """The browser with a window of ordinary size, in light colours."""
    shared_browser.reset()
    return shared_browser
