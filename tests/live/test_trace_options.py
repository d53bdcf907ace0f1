from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.live.trace_options import TraceOptions


@pytest.mark.parametrize("most", [1, 0.5, 10_000])
def test_any_positive_size_is_taken(most: float) -> None:
    assert TraceOptions(max_trace_mb=most).max_trace_mb == most


@pytest.mark.parametrize("most", [0, -1.0, "200", None, True, float("nan"), float("inf")])
def test_a_size_that_is_no_positive_number_is_refused_with_its_value(most: Any) -> None:
    with pytest.raises(ValueError, match="max_trace_mb must be a positive number of megabytes") as refused:
        TraceOptions(max_trace_mb=most)

    assert repr(most) in str(refused.value)


@pytest.mark.parametrize("field", ["record_shapes", "with_stack", "profile_memory"])
def test_a_switch_that_is_no_truth_value_is_refused_by_name(field: str) -> None:
    options: dict[str, Any] = {field: True}
    assert getattr(TraceOptions(**options), field) is True

    with pytest.raises(ValueError, match=rf"TraceOptions\.{field} must be true or false, got 'yes'"):
        TraceOptions(**{**options, field: "yes"})
