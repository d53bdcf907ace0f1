"""Rule: training waits for its data loader."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.measurements import LoaderInfo, LoadProbe, RunInfo, StepTimes
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import LoneStep, lone_step, window_of


@dataclass(frozen=True)
class DataloaderStarvation(Rule):
    """Training waits for its data loader.

    What it is: the loop asks for a batch that is not ready yet, and the device has nothing to do meanwhile.

    Why it costs: with ``num_workers=0`` every batch is loaded in the training process, between two steps, and nothing
    overlaps. With too few workers a batch takes longer to load than a step takes to train.

    How it is measured: the time inside the loop's request for a batch, exclusive of everything else; on a GPU by an
    event pair around it on the device's clock, which stays near zero while the device still has queued work. Never
    the gap between two steps, which holds validation, checkpoints and logging too. Only steady steps count. The load
    time of a batch is the wait itself without workers; with ``n`` starving workers it is ``n`` times the step. The
    number of workers that hides 95 % of it follows from the load time and the rest of the step. One audited step
    tells how much of the loading is spent in ``collate_fn``, and how much of it the CPU computes rather than waits for
    a disk or a network. On a CPU run the workers compute on the same CPUs: the share is what they can hide there.
    Where there are not CPUs enough for the workers, the share is an estimate of what those bring that fit. A trace of
    which nothing else is known tells the device's idle time under the loader's ``__next__`` (without a device, the
    host's time in it) and, by the iterator's class, whether there are workers.

    Fix: set ``num_workers`` to the value given; ``pin_memory=True`` where the copy to a GPU is slow; else make loading
    cheaper at the place named. The start of workers at each epoch is another rule's (``worker-restart``).

    Silent when: the wait is under 5 % of the step or under ``min_wait_ms`` per batch. A worker needs about 1 ms to
    hand over its batch (1.1 ms measured on two CPU cores for 16 x 128 tokens), so shorter waits can't be hidden. Where
    other programs use the CPUs too it takes longer (1 to 10 ms for 8 pictures of 64 x 64): with workers, a wait of
    less than ``max_handover_ms`` and ``handover_share`` of the step is information, since workers that keep up look
    the same. In a trace alone, a single step of many that holds nearly all of the wait makes it information.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_wait_ms: float = 2.0
    max_handover_ms: float = 8.0
    handover_share: float = 0.1
    min_steps: int = 3

    needs_any: ClassVar[tuple[str, ...]] = ("steps", "trace")
    # Not only the first batch of an epoch waits for workers that start: each of them brings its first one late.
    symptom_of: ClassVar[tuple[str, ...]] = ("worker-restart",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, when there are too few steps, and for a trace without the loader's calls."""
        reason = super().skip_reason(evidence)
        if reason is None and evidence.steps is None and _TraceWait.of(evidence) is None:
            elsewhere = evidence.trace is not None and len(evidence.trace.dataloader) > 0
            return f"the {'steps of the trace have' if elsewhere else 'trace has'} no event of a data loader"
        if reason is None and evidence.steps is not None and evidence.steps.num_steps < self.min_steps:
            return f"{evidence.steps.num_steps} steady steps are too few, {self.min_steps} are needed"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        if evidence.steps is None:
            wait = _TraceWait.of(evidence)
            if wait is not None and wait.share >= self.warning_share and wait.fetch_s * 1e3 >= self.min_wait_ms:
                assert evidence.trace is not None
                yield self._of_trace(wait, lone_step(evidence.trace, "data", self.warning_share))
            return
        share = evidence.steps.share("data_wait")
        if share >= self.warning_share and evidence.steps.phase_s("data_wait") * 1e3 >= self.min_wait_ms:
            yield self._steady(evidence, evidence.steps, share)

    def _steady(self, evidence: Evidence, steps: StepTimes, share: float) -> Finding:
        loader, probe, run = evidence.loader, evidence.load_probe, evidence.run
        wait_s, step_s = steps.phase_s("data_wait"), steps.mean_step_s
        workers = None if loader is None else loader.num_workers
        load_s = steps.host_phase_s("data_wait") if workers == 0 else workers * step_s if workers else None
        is_handover = bool(workers) and wait_s * 1e3 < self.max_handover_ms and share < self.handover_share
        plan = None if load_s is None or run is None else _Plan.of(load_s, wait_s, step_s, run, _cpu_share(probe))
        hidden = share if plan is None or plan.chosen <= (workers or 0) else share - plan.left_s / step_s
        numbers = {
            "wait_s": wait_s,
            "step_s": step_s,
            "num_workers": workers,
            "load_s": load_s,
            "needed_workers": None if plan is None else plan.needed,
            "num_cpus": None if run is None else run.num_cpus,
            "fetch_s": None if probe is None else probe.fetch_s,
            "collate_s": None if probe is None else probe.collate_s,
            "cpu_share": _cpu_share(probe),
            "wait_share": share,
        }
        severity = Severity.of(share, self.warning_share, self.critical_share)
        cause = "the workers hand their batches over, or can't quite keep up" if is_handover else None
        return Finding(
            rule=self.id(),
            severity=Severity.INFO if is_handover else severity,
            share=max(0.0, hidden),
            share_is="upper bound" if hidden >= _GOOD_ENOUGH * share else "estimate",
            summary=f"Training waits for data for {wait_s * 1e3:.1f} ms of each {step_s * 1e3:.1f} ms step "
            f"({100 * share:.0f} %): {cause or _cause(workers, load_s, probe)}.",
            advice=_advice(loader, plan, probe) + _pinning(steps, loader, run, self.warning_share),
            where=_place(probe, loader),
            evidence=numbers,
        )

    def _of_trace(self, wait: _TraceWait, lone: LoneStep | None) -> Finding:
        most = f"The GPU idles for {100 * wait.share:.0f} % of the time" if wait.on_device else "Training waits"
        each = f"{wait.fetch_s * 1e3:.1f} ms for each batch"
        when = each if lone is None else f"nearly all of it in 1 of {lone.num_steps} steps (#{lone.number})"
        spent = "" if wait.on_device else f" for {100 * wait.share:.0f} % of the time"
        cause = (
            "num_workers=0 loads every batch in the training process"
            if wait.num_workers == 0
            else "the workers can't keep up"
            if lone is None
            else "one batch came late"
        )
        return Finding(
            rule=self.id(),
            severity=Severity.of(wait.share, self.warning_share, self.critical_share)
            if lone is None
            else Severity.INFO,
            share=wait.share,
            summary=f"{most} while the loop waits for its data{spent}, {when}: {cause}.",
            advice=f"Set num_workers={wait.needed_workers} in the training DataLoader, with persistent_workers=True "
            "and pin_memory=True: that hides the loading behind the step."
            if wait.num_workers == 0
            else "Find out what made that batch late: for the first of an epoch, persistent_workers=True helps."
            if lone is not None
            else "Raise num_workers up to the number of CPUs, or make loading cheaper.",
            where=Where(op=wait.name),
            evidence={"fetch_s": wait.fetch_s, "step_s": wait.step_s, "num_workers": wait.num_workers},
        )


@dataclass(frozen=True)
class _TraceWait:
    """What a trace tells of its data loader; ``num_workers`` is 0 or None, and then there are some."""

    share: float
    on_device: bool
    fetch_s: float
    step_s: float
    name: str
    num_workers: int | None

    @classmethod
    def of(cls, evidence: Evidence) -> _TraceWait | None:
        trace, parts = evidence.trace, evidence.breakdown
        if trace is None or parts is None or not len(trace.dataloader) or parts.data_wait_share is None:
            return None
        idle = [device.data_idle_share for device in parts.devices if device.data_idle_share is not None]
        if parts.devices and not idle:
            return None
        begin_us = trace.dataloader.start_us
        window = window_of(trace)
        inside = (begin_us >= window.start_us) & (begin_us < trace.steps.end_us.max(initial=window.start_us))
        fetches = trace.dataloader.take(inside) if len(trace.steps) else trace.dataloader
        if len(fetches) == 0:
            return None
        name = trace.names[int(fetches.name[0])]
        return cls(
            share=max(idle, default=parts.data_wait_share),
            on_device=bool(idle),
            fetch_s=float(fetches.dur_us.mean()) / 1e6,
            step_s=parts.window_s / (parts.num_steps or len(fetches)),
            name=name.partition("#")[2].partition(".")[0] or name,
            num_workers=0 if "_SingleProcess" in name else None,
        )

    @property
    def needed_workers(self) -> int:
        rest_s = self.step_s * (1.0 - self.share)
        return max(1, math.ceil(_GOOD_ENOUGH * self.fetch_s / rest_s)) if rest_s > 0 else 1


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


_GOOD_ENOUGH = 0.95  # workers that hide this much of the loading are enough: one more would bring less than 5 %


_BUSY = 0.8
"""What of its CPUs training is taken to use: no step is all parallel."""


@dataclass(frozen=True)
class _Plan:
    """How many workers hide the load time, and what is left of the wait with those that fit."""

    needed: int
    chosen: int
    wait_s: float
    left_s: float

    @classmethod
    def of(cls, load_s: float, wait_s: float, step_s: float, run: RunInfo, cpu_share: float | None) -> _Plan:
        rest_s, num_cpus = max(0.0, step_s - wait_s), run.num_cpus
        needed = max(1, math.ceil(_GOOD_ENOUGH * load_s / rest_s)) if rest_s > 0 else num_cpus + 1
        chosen = min(needed, num_cpus)
        left_s = load_s / chosen - rest_s
        if not run.device_is_asynchronous and cpu_share is not None and (run.num_threads or num_cpus) >= num_cpus:
            # Training leaves no CPU free, so the workers' computing slows it down.
            left_s = max(left_s, (_BUSY * rest_s * num_cpus + cpu_share * load_s) / num_cpus - rest_s)
        return cls(needed, chosen, wait_s, min(wait_s, max(0.0, left_s)))


def _cause(workers: int | None, load_s: float | None, probe: LoadProbe | None) -> str:
    if workers is None or load_s is None:
        return "its loader is slower than the step"
    if workers == 0:
        collate = _collate_share(probe)
        part = (
            f", {100 * collate:.0f} % of it in collate_fn" if collate is not None and collate >= _NOTABLE_SHARE else ""
        )
        kind = "" if _cpu_share(probe) is None else _kind(_cpu_share(probe) or 0.0)
        return f"num_workers=0 loads every batch in the training process, {load_s * 1e3:.1f} ms each{part}{kind}"
    verb = "loads" if workers == 1 else "load"
    return f"{_workers(workers)} {verb} a batch in {load_s * 1e3:.1f} ms each and can't keep up"


def _advice(loader: LoaderInfo | None, plan: _Plan | None, probe: LoadProbe | None) -> str:
    if loader is None or plan is None:
        return "Make the training loader faster, or load ahead in other processes."
    workers = loader.num_workers or 0
    cheaper = "make loading cheaper" + (" in collate_fn" if (_collate_share(probe) or 0.0) >= _MOST_SHARE else "")
    if plan.chosen <= workers:
        return (
            f"{cheaper[0].upper()}{cheaper[1:]}: {workers} workers already use the {plan.chosen} CPUs that this "
            f"process may use, and {plan.needed} would be needed. Where loading waits for a disk or a network rather "
            "than computes, more workers than CPUs help, too."
        )
    setting = f"Set num_workers={plan.chosen} in the training DataLoader"
    if plan.needed > plan.chosen and plan.left_s > _NOTABLE_SHARE * plan.wait_s:
        return (
            f"{setting} (all CPUs that this process may use; {plan.needed} would be needed) and {cheaper}: about "
            f"{plan.left_s * 1e3:.0f} ms of waiting would be left."
        )
    persistent = "" if loader.persistent_workers else ", with persistent_workers=True"
    most = "most of " if plan.needed > plan.chosen else ""
    return f"{setting}{persistent}: that hides {most}the loading behind the step."


def _pinning(steps: StepTimes, loader: LoaderInfo | None, run: RunInfo | None, least_share: float) -> str:
    if loader is None or run is None or run.device_type != "cuda" or loader.pin_memory is not False:
        return ""
    share = steps.share("transfer")
    return (
        f" Set pin_memory=True too: the copy to the GPU takes {100 * share:.0f} % of the step."
        if share >= least_share
        else ""
    )


_NOTABLE_SHARE = 0.2
_MOST_SHARE = 0.5


def _cpu_share(probe: LoadProbe | None) -> float | None:
    """The part of loading in which the CPU computes."""
    if probe is None or probe.cpu_s is None or probe.fetch_s + probe.collate_s <= 0:
        return None
    return min(1.0, probe.cpu_s / (probe.fetch_s + probe.collate_s))


def _kind(cpu_share: float) -> str:
    if cpu_share >= _BOUND:
        return f", {100 * cpu_share:.0f} % of it computing on the CPU (decoding, transforms)"
    if cpu_share <= 1.0 - _BOUND:
        return f", {100 * (1 - cpu_share):.0f} % of it waiting (a disk, a network, a lock)"
    return ""


_BOUND = 0.7


def _collate_share(probe: LoadProbe | None) -> float | None:
    if probe is None or probe.fetch_s + probe.collate_s <= 0:
        return None
    return probe.collate_s / (probe.fetch_s + probe.collate_s)


def _place(probe: LoadProbe | None, loader: LoaderInfo | None) -> Where:
    if probe is None:
        known = loader is not None and loader.dataset_file is not None
        return Where(file=loader.dataset_file, line=loader.dataset_line, op="dataset") if loader and known else Where()
    if (_collate_share(probe) or 0.0) >= _MOST_SHARE:
        return Where(file=probe.collate_file, line=probe.collate_line, op="collate_fn")
    return Where(file=probe.dataset_file, line=probe.dataset_line, op="dataset")
