"""Rule: the host is too slow at handing out work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.frequency import how_many
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import DeviceBreakdown, Launches, Loops, host_loops, launches_in_steps, lone_step
from lightning_perfwatch.trace.columns import BACKWARD


@dataclass(frozen=True)
class LaunchBound(Rule):
    """The step is spent on handing out small pieces of work instead of doing them.

    What it is: on a GPU the kernels are over before the host has launched the next ones. On a CPU a Python loop calls
    the same few operators on tiny tensors again and again.

    Why it costs: each launch costs the host 5 to 10 µs and some Python beside; a kernel of 3 µs leaves the GPU idle
    for the rest. On a CPU an operator costs 5 to 20 µs to call, however little it computes, and its backward pass as
    much again.

    How it is measured: on a GPU the device's idle time before work that was launched too late, from the trace,
    without what the data loader, synchronisations and a host that was busy elsewhere explain. Where those explain
    more than half of the idle time they are the cause, and this is not reported. On a CPU the trace is searched for at
    least ``min_rounds`` equal rounds of operators in a row outside of the optimizer; their cost is up to 20 µs for
    each operator and the Python between them. What the profiler itself adds is taken off by the steady steps.

    Fix: compile the model (``torch.compile``, with ``mode="reduce-overhead"`` for CUDA graphs), use a fused optimizer,
    raise the batch size; on a CPU replace the loop by one operation over the whole tensor.

    Silent when: that costs under 5 % of the step, fewer than ``min_kernels`` kernels were recorded, or other causes
    explain most of the idle time. Where one step of many holds nearly all of it, it is information. On a CPU a model of
    many small operators without a loop is not reported.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    most_explained_share: float = 0.5
    min_kernels: int = 50
    min_rounds: int = 32

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where the trace does not tell who is late."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.trace is None or evidence.breakdown is None:
            return reason
        devices = evidence.breakdown.devices
        if devices and all(device.launch_idle_share is None for device in devices):
            return "the trace has no calls of the host, so nothing tells why the device idles"
        if not devices and not len(evidence.trace.steps):
            return "the trace has neither device work nor steps"
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.trace is not None and evidence.breakdown is not None
        if evidence.breakdown.devices:
            yield from self._on_device(evidence, evidence.breakdown.devices)
        elif evidence.run is None or not evidence.run.device_is_asynchronous:
            loops = host_loops(evidence.trace, max(2, self.min_rounds))
            if loops is not None:
                yield from self._on_cpu(evidence, loops)

    def _on_device(self, evidence: Evidence, devices: tuple[DeviceBreakdown, ...]) -> Iterable[Finding]:
        assert evidence.trace is not None
        device = max(devices, key=lambda one: one.launch_idle_share or 0.0)
        explained = sum(
            part or 0.0 for part in (device.data_idle_share, device.sync_idle_share, device.stall_idle_share)
        )
        share = _without_profiler(evidence, device.launch_idle_share or 0.0)
        if share < self.warning_share or explained > self.most_explained_share * device.idle_share:
            return
        launches = launches_in_steps(evidence.trace)
        if launches is None or launches.num_kernels < self.min_kernels:
            return
        size = "" if device.kernel_median_us is None else f" of {device.kernel_median_us:.0f} µs in the median"
        lone = lone_step(evidence.trace, "launch", self.warning_share)
        odd = "" if lone is None else f", nearly all of it in 1 of {lone.num_steps} steps (#{lone.number})"
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share) if lone is None else Severity.INFO,
            share=share,
            summary=f"The GPU idles for {100 * share:.0f} % of the time because the host launches its "
            f"{how_many(launches.num_kernels, 'kernel', launches.per_step)}{size} too slowly"
            f"{_launcher(launches)}{odd}.",
            advice=_advice(launches, evidence.run is not None and evidence.run.compiled),
            where=_place(launches),
            evidence={
                "launch_idle_share": device.launch_idle_share,
                "busy_share": device.busy_share,
                "kernels_per_step": launches.per_step,
                "kernel_median_us": device.kernel_median_us,
                "optimizer_share_of_kernels": launches.optimizer_share,
            },
        )

    def _on_cpu(self, evidence: Evidence, loops: Loops) -> Iterable[Finding]:
        share = _without_profiler(evidence, loops.overhead_share)
        if share < self.warning_share:
            return
        names = " → ".join(name.removeprefix(BACKWARD) for name in loops.pattern[:4])
        more = f" and {len(loops.pattern) - 4} more" if len(loops.pattern) > 4 else ""
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="estimate",
            summary=f"A Python loop calls {loops.num_operators_per_step:,.0f} operators in each step, "
            f"{loops.median_op_us:.0f} µs in the median, {loops.num_rounds:,.0f} times the same {names}{more}: calling "
            f"them takes {100 * share:.0f} % of the step.",
            advice="Replace the loop by one operation over the whole tensor (a batched matmul, cumsum, unfold, vmap or "
            "torch.nn.LSTM instead of its cell), or compile the function it is in with torch.compile.",
            where=self._place(evidence, loops),
            evidence={
                "operators_per_step": loops.num_operators_per_step,
                "rounds": loops.num_rounds,
                "pattern": list(loops.pattern),
                "overhead_us_per_step": loops.overhead_us_per_step,
                "loop_share": loops.time_share,
            },
        )

    def _place(self, evidence: Evidence, loops: Loops) -> Where:
        """By the stacks of the trace, else the user's line that made most calls in the audited steps."""
        if loops.place is not None:
            return Where(file=loops.place.file, line=loops.place.line, op=f"{loops.place.function}()")
        busiest = next(iter(evidence.syncs.busiest), None) if evidence.syncs is not None else None
        if busiest is None or busiest.calls_per_step < self.min_rounds:
            return Where(op=loops.pattern[0])
        return Where(file=busiest.file, line=busiest.line, op=f"{busiest.function}()")


_EVENT_S = 2e-6
"""What recording an operator or a call costs the host, at most: 1 to 2 µs measured on CPUs."""


def _without_profiler(evidence: Evidence, share: float) -> float:
    """The share in a step as it runs outside of the window, where no profiler slows the host down.

    The window is also slower for other reasons (other work on the machine), which do not change the share.
    """
    parts, steps, trace = evidence.breakdown, evidence.steps, evidence.trace
    if parts is None or trace is None or not parts.num_steps or steps is None or steps.num_steps < 3:
        return share
    profiled_s = parts.window_s / parts.num_steps
    slower_s = profiled_s - steps.mean_step_s
    recording_s = _EVENT_S * (len(trace.ops) + len(trace.runtime)) / parts.num_steps
    added_s = max(0.0, min(slower_s, recording_s, share * profiled_s))
    return (share * profiled_s - added_s) / (profiled_s - added_s) if profiled_s > added_s else share


def _launcher(launches: Launches) -> str:
    if launches.module is not None and launches.module_share is not None:
        return f" ({100 * launches.module_share:.0f} % of them in {launches.module})"
    if launches.operator is not None and launches.operator_share is not None:
        return f" ({100 * launches.operator_share:.0f} % of them by {launches.operator})"
    return ""


_MUCH = 0.25


def _advice(launches: Launches, compiled: bool) -> str:
    optimizer = "Pass fused=True to the optimizer, then c" if launches.optimizer_share >= _MUCH else "C"
    if compiled:
        return f"{optimizer}apture CUDA graphs, torch.compile(model, mode='reduce-overhead'), or raise the batch size."
    return f"{optimizer}ompile the model, torch.compile(model, mode='reduce-overhead'), or raise the batch size."


def _place(launches: Launches) -> Where:
    code = launches.place
    return Where(
        file=None if code is None else code.file,
        line=None if code is None else code.line,
        op=None if launches.module is not None else launches.operator,
        module=launches.module,
    )
