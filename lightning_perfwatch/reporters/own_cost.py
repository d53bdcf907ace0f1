"""What PerfWatch itself cost, in words.

Owns the choice of what of it is said in one line. Knows nothing of layout.
"""

from __future__ import annotations

from lightning_perfwatch.measurements import Overhead
from lightning_perfwatch.report import StepTime
from lightning_perfwatch.reporters.wording import NOT_MEASURED, duration, percent


def own_cost(overhead: Overhead | None, step_time: StepTime | None) -> str | None:
    """What ``overhead`` says, in one line; None where the run was not watched."""
    if overhead is None:
        return None
    said = []
    per_step_us = overhead.hook_us_per_step
    if per_step_us is not None:
        of_step = f" ({percent(per_step_us / 1e6 / step_time.mean)} of it)" if step_time and step_time.mean > 0 else ""
        said.append(f"{duration(per_step_us / 1e6)} per step{of_step}")
    if overhead.listening_s is not None and overhead.spared_s is not None:
        listening, spared = duration(overhead.listening_s), duration(overhead.spared_s)
        said.append(f"{listening} to listen in place of {spared} of Lightning's own")
    if overhead.capture_s > 0:
        said.append(f"{duration(overhead.capture_s)} to start, stop and write profiles")
    if overhead.recording_s is not None and overhead.recording_s > 0:
        said.append(f"{duration(overhead.recording_s)} by slower recorded steps")
    if overhead.analysis_cpu_s is not None:
        said.append(f"{duration(overhead.analysis_cpu_s)} of CPU to analyse")
    return ", ".join(said) or NOT_MEASURED
