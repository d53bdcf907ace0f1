"""What a trace records and how large it may become.

Plain validated data; imports nothing of torch.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class TraceOptions:
    """What is recorded in a window.

    Args:
        max_trace_mb: size in MB that the uncompressed trace should not exceed; a window that would, closes early.
        record_shapes: record the shapes of the operators' inputs (costs 5 to 13 % inside the window).
        with_stack: record Python frames (several times the events, and spans of steps may be incoherent).
        profile_memory: record allocations.

    Raises:
        ValueError: a field has the wrong type or ``max_trace_mb`` is not positive.
    """

    max_trace_mb: float = 200.0
    record_shapes: bool = False
    with_stack: bool = False
    profile_memory: bool = False

    def __post_init__(self) -> None:
        most: object = self.max_trace_mb
        if isinstance(most, bool) or not isinstance(most, (int, float)) or not 0 < most <= _LARGEST:
            raise ValueError(f"TraceOptions.max_trace_mb must be a positive number of megabytes, got {most!r}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "max_trace_mb" and not isinstance(value, bool):
                raise ValueError(f"TraceOptions.{field.name} must be true or false, got {value!r}.")
