"""Kineto traces: read into numpy columns, queried, broken down.

Nothing here knows torch, rules or reports; a trace of any origin is only numbers and names.
"""

from lightning_perfwatch.trace.attention import Attention, attention
from lightning_perfwatch.trace.breakdown import Breakdown, DeviceBreakdown, breakdown, longest_communication
from lightning_perfwatch.trace.copying import CopyCost, copy_costs
from lightning_perfwatch.trace.exchanges import (
    Exchanges,
    HostExchange,
    exchange_on_host,
    exchanges_in_steps,
    search_on_host_share,
)
from lightning_perfwatch.trace.filling import filled_share
from lightning_perfwatch.trace.host_breakdown import HostBreakdown, host_breakdown
from lightning_perfwatch.trace.idle import idle_stalls
from lightning_perfwatch.trace.launches import Launches, launches_in_steps
from lightning_perfwatch.trace.lone_step import LoneStep, lone_step
from lightning_perfwatch.trace.loops import Loops, host_loops
from lightning_perfwatch.trace.op_costs import OpCosts, op_costs
from lightning_perfwatch.trace.operators import OpTotal, calls_per_step, top_launchers, top_ops
from lightning_perfwatch.trace.places import CodePlace, annotation_at, code_place
from lightning_perfwatch.trace.reader import TraceError, read_trace
from lightning_perfwatch.trace.reserving import Reserving, reserving_in_steps
from lightning_perfwatch.trace.step_breakdown import StepBreakdown, step_breakdowns
from lightning_perfwatch.trace.step_rows import DeviceStep, HostStep, device_steps, host_steps
from lightning_perfwatch.trace.timeline import Lane, Timeline, timeline
from lightning_perfwatch.trace.trace import Trace
from lightning_perfwatch.trace.waiting import Waits, waits_in_steps
from lightning_perfwatch.trace.window import window_of

__all__ = [
    "Attention",
    "Breakdown",
    "CodePlace",
    "CopyCost",
    "DeviceBreakdown",
    "DeviceStep",
    "Exchanges",
    "HostBreakdown",
    "HostExchange",
    "HostStep",
    "Lane",
    "Launches",
    "LoneStep",
    "Loops",
    "OpCosts",
    "OpTotal",
    "Reserving",
    "StepBreakdown",
    "Timeline",
    "Trace",
    "TraceError",
    "Waits",
    "annotation_at",
    "attention",
    "breakdown",
    "calls_per_step",
    "code_place",
    "copy_costs",
    "device_steps",
    "exchange_on_host",
    "exchanges_in_steps",
    "filled_share",
    "host_breakdown",
    "host_loops",
    "host_steps",
    "idle_stalls",
    "launches_in_steps",
    "lone_step",
    "longest_communication",
    "op_costs",
    "read_trace",
    "reserving_in_steps",
    "search_on_host_share",
    "step_breakdowns",
    "timeline",
    "top_launchers",
    "top_ops",
    "waits_in_steps",
    "window_of",
]
