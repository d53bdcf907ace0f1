"""Public reports on the schedule's windows: which steps are recorded, and what never is."""

from __future__ import annotations

import pytest

from tests.reports.harness import fit, loader, perfwatch, steps_of, trace_files


@pytest.mark.parametrize("num_batches", range(8))
def test_a_trace_holds_exactly_the_complete_steps_of_its_window(num_batches: int) -> None:
    """PT#91682, PT#83835, PT#121126 (16): no phantom step, no empty step, and the user is told what is missing."""
    watch = perfwatch()
    fit(watch, train=loader(num_batches))

    recorded = max(0, min(3, num_batches - 2))
    assert [list(steps_of(path)) for path in trace_files()] == ([list(range(2, 2 + recorded))] if recorded else [])
