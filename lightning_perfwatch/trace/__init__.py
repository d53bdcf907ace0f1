"""Kineto traces: read into numpy columns, queried, broken down.

Nothing here knows torch, rules or reports; a trace of any origin is only numbers and names.
"""

from lightning_perfwatch.trace.attention import Attention, attention
from lightning_perfwatch.trace.breakdown import Breakdown, DeviceBreakdown, breakdown
from lightning_perfwatch.trace.host_breakdown import HostBreakdown, host_breakdown
from lightning_perfwatch.trace.op_costs import OpCosts, op_costs
from lightning_perfwatch.trace.operators import OpTotal, calls_per_step, top_launchers, top_ops
from lightning_perfwatch.trace.reader import TraceError, read_trace
from lightning_perfwatch.trace.step_breakdown import StepBreakdown, step_breakdowns
from lightning_perfwatch.trace.step_rows import DeviceStep, HostStep, device_steps, host_steps
from lightning_perfwatch.trace.trace import Trace

__all__ = [
    "Attention",
    "Breakdown",
    "DeviceBreakdown",
    "DeviceStep",
    "HostBreakdown",
    "HostStep",
    "OpCosts",
    "OpTotal",
    "StepBreakdown",
    "Trace",
    "TraceError",
    "attention",
    "breakdown",
    "calls_per_step",
    "device_steps",
    "host_breakdown",
    "host_steps",
    "op_costs",
    "read_trace",
    "step_breakdowns",
    "top_launchers",
    "top_ops",
]
