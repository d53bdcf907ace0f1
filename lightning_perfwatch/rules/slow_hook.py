"""Rule: a callback or hook eats the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.measurements import HookTime
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import DeviceBreakdown, annotation_at, idle_stalls, lone_step, window_of


@dataclass(frozen=True)
class SlowHook(Rule):
    """A callback or hook takes a notable part of every step.

    What it is: code in a callback, in a hook of the module or in Lightning's logging that runs beside the model.

    Why it costs: hooks run one after the other on the thread that feeds the device, so their time is added to the
    step on a CPU, and on a GPU wherever the device has run dry.

    How it is measured: Lightning announces each hook to its profiler, and the time between is taken exclusively, for
    every callback by name. The mean over the steady steps counts, so a hook that stalls every 50th step is found
    too. Hooks of validation and of checkpoints are not part of a step and are left out. On a GPU the share can't
    exceed the share of the window in which the device idles, from the trace. In a trace of which nothing else is
    known it is the time in which the device idles while its host runs no operator and no call for a millisecond or
    more; the label around it is named.

    Fix: do the work every N steps, move it to the end of the epoch or off the training thread; for a progress
    bar raise ``refresh_rate``, for logging raise ``Trainer(log_every_n_steps=...)``.

    Silent when: a hook takes under 5 % of the step or under ``min_ms_per_step``. In a trace alone, a single step of
    many that holds nearly all of it makes it information.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_ms_per_step: float = 0.5
    min_steps: int = 5

    needs_any: ClassVar[tuple[str, ...]] = ("hooks", "trace")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and on a GPU without a trace of it."""
        if evidence.run is None:
            reason = super().skip_reason(evidence)
            if reason is None and _most_stalled(evidence) is None:
                return "without a device and its host's calls in the trace nothing tells what stalls cost"
            return reason
        missing = next((name for name in ("hooks", "steps") if getattr(evidence, name) is None), None)
        reason = None if missing is None else evidence.why_missing(missing)
        if reason is None and evidence.steps and evidence.steps.num_steps < self.min_steps:
            return f"{evidence.steps.num_steps} steady steps are too few, {self.min_steps} are needed"
        on_device = evidence.run.device_is_asynchronous
        if reason is None and on_device and _idle_share(evidence) is None:
            return "a hook's time on the host costs only what the device idles, and no trace tells that"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for each hook that is slow."""
        if evidence.run is None:
            yield from self._stalls(evidence)
            return
        assert evidence.hooks is not None and evidence.steps is not None
        step_s = evidence.steps.mean_step_s
        most = _idle_share(evidence) if evidence.run.device_is_asynchronous else None
        for hook in evidence.hooks:
            if " " in hook.hook and evidence.run.world_size > 1:
                continue  # in Lightning's own time between two batches the ranks wait for each other, too
            share = min(1.0, hook.s_per_step / step_s) if step_s > 0 else 0.0
            share = share if most is None else min(share, most)
            if share >= self.warning_share and hook.s_per_step * 1e3 >= self.min_ms_per_step:
                yield self._finding(hook, share, step_s)

    def _stalls(self, evidence: Evidence) -> Iterable[Finding]:
        """What a trace alone tells: the host is busy with something that the profiler does not see."""
        device = _most_stalled(evidence)
        share = None if device is None else device.stall_idle_share
        if evidence.trace is None or device is None or share is None or share < self.warning_share:
            return
        stretches = idle_stalls(evidence.trace, device.index, window_of(evidence.trace))
        longest = stretches[(stretches[:, 1] - stretches[:, 0]).argsort()[::-1][:_FEW]]
        label = annotation_at(evidence.trace, longest.mean(axis=1))
        lone = lone_step(evidence.trace, "stall", self.warning_share)
        odd = "" if lone is None else f", nearly all of it in 1 of {lone.num_steps} steps (#{lone.number})"
        longest_s = float((longest[0, 1] - longest[0, 0]) / 1e6) if len(longest) else 0.0
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share) if lone is None else Severity.INFO,
            share=share,
            summary=f"The GPU idles for {100 * share:.0f} % of the time while the host runs neither an operator nor a "
            f"launch, up to {longest_s * 1e3:.0f} ms at a time" + (f", inside {label!r}" if label else "") + f"{odd}.",
            advice="Look at what the host does there beside torch (a callback, a sleep, a lock, I/O, logging): do it "
            "every 50 steps or on another thread; a trace with with_stack=True names the line.",
            where=Where(op=label),
            evidence={"stall_idle_share": share, "longest_s": longest_s, "label": label},
        )

    def _finding(self, hook: HookTime, share: float, step_s: float) -> Finding:
        rare = f", up to {hook.max_s * 1e3:.0f} ms at a time" if hook.max_s > _RARE * hook.s_per_step else ""
        name = _name(hook)
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"{name} takes {hook.s_per_step * 1e3:.1f} ms of each {step_s * 1e3:.1f} ms step "
            f"({100 * share:.0f} %){rare}.",
            advice=_advice(hook),
            where=Where(file=hook.file, line=hook.line, module=name),
            evidence={"hook_s": hook.s_per_step, "max_s": hook.max_s, "step_s": step_s},
        )


_RARE = 3.0
"""A hook whose longest call takes this many times its mean per step does not do the same in every step."""


def _name(hook: HookTime) -> str:
    return f"{hook.name} {hook.hook}" if " " in hook.hook else f"{hook.name}.{hook.hook}"


def _advice(hook: HookTime) -> str:
    if hook.name.endswith("ProgressBar"):
        return f"Draw the bar less often: {hook.name}(refresh_rate=50)."
    if " " in hook.hook:
        return "Log less often, Trainer(log_every_n_steps=50), or fewer values per step."
    if hook.max_s > _RARE * hook.s_per_step:
        return "Make its work cheaper or rarer, or move it off the training thread."
    return f"Do its work every 50 steps (if batch_idx % 50: return) or once an epoch, not in each {hook.hook}."


_FEW = 20


def _most_stalled(evidence: Evidence) -> DeviceBreakdown | None:
    devices = () if evidence.breakdown is None else evidence.breakdown.devices
    known = [device for device in devices if device.stall_idle_share is not None]
    return max(known, key=lambda device: device.stall_idle_share or 0.0, default=None)


def _idle_share(evidence: Evidence) -> float | None:
    devices = () if evidence.breakdown is None else evidence.breakdown.devices
    return max((device.idle_share for device in devices), default=None)
