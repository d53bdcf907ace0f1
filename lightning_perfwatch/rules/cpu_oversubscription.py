"""Rule: the thread that trains waits for a CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import ProcessorUse
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class CpuOversubscription(Rule):
    """More threads want to compute than there are CPUs for them.

    What it is: torch computes one operator with several threads, and loader workers and other processes compute
    besides. Where they are more than the CPUs that this process may use, they take turns.

    Why it costs: an operator is done when its last thread is, so one thread that waits for its turn makes all of them
    wait, at every operator. On two CPUs the same step took 106 ms with 2 threads, 144 ms with 4 and 217 ms with 32;
    with another program on one of the CPUs it took 1,860 ms with 2 threads and 171 ms with 1.

    How it is measured: the kernel's own account of how long the thread that trains was ready to run and had no CPU
    (``/proc/thread-self/schedstat``), over the steady steps. In those measurements this was 1 %, 23 % and 49 % of the
    time, and 0 %, 26 % and 51 % of it went when there were as many threads as CPUs. Whose fault it is follows from
    the threads beyond the CPUs, from the CPU time of the loader's workers, and from what the CPUs did besides for
    others. On a GPU run the share is at most the time in which the trace shows the device idle. Where others have the
    CPUs it may be far more: a thread that spins for one that waits counts as running.

    Fix: ``torch.set_num_threads(...)`` or ``OMP_NUM_THREADS=...`` as named; fewer or cheaper loader workers; CPUs of
    its own for each run.

    Silent when: the thread waits for under 5 % of the time on account of this run, or under ``others_share`` on
    account of others. What others use, and workers whose computing training needs on the same CPUs, are only
    information.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    others_share: float = 0.1
    min_steps: int = 10
    min_wall_s: float = 1.0

    needs: ClassVar[tuple[str, ...]] = ("resources",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where the kernel tells nothing or too few steps went by."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.resources is None:
            return reason
        use = evidence.resources.processors
        if use is None:
            return evidence.resources.why_missing("processors")
        if use.num_steps < self.min_steps or use.wall_s < self.min_wall_s:
            return (
                f"{use.num_steps} steady steps in {use.wall_s:.1f} s are too few to judge the waiting for a CPU, "
                f"{self.min_steps} in {self.min_wall_s:.1f} s are needed"
            )
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding for this run's own threads, one for its workers and one for others."""
        assert evidence.resources is not None and evidence.resources.processors is not None
        use = evidence.resources.processors
        exposed = _exposed(evidence)
        waits = {cause: min(share, exposed) for cause, share in _by_cause(use).items()}
        if waits["threads"] >= self.warning_share:
            severity = Severity.of(waits["threads"], self.warning_share, self.critical_share)
            yield self._threads(use, waits["threads"], severity)
        if waits["workers"] >= self.others_share:
            beside = evidence.run is not None and evidence.run.device_is_asynchronous
            yield self._workers(use, waits["workers"], Severity.WARNING if beside else Severity.INFO)
        if waits["others"] >= self.others_share:
            yield self._others(use, waits["others"])

    def _threads(self, use: ProcessorUse, share: float, severity: Severity) -> Finding:
        fits = _num_fitting(use)
        each = f"{use.num_processes} processes with " if use.num_processes > 1 else ""
        threads = f"{use.num_threads} thread{'s' * (use.num_threads > 1)}"
        fewer = f"Set torch.set_num_threads({fits}), or OMP_NUM_THREADS={fits} before the start"
        one = f"Train with devices={use.num_cpus} on this machine"
        return Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            share_is="estimate",
            summary=f"{each}{threads} for {'each' if each else 'one'} operator share {_cpus(use.num_cpus)}: the thread "
            f"that trains is ready but has no CPU for {100 * share:.0f} % of the time.",
            advice=f"{fewer if use.num_threads > fits else one}: one thread per CPU.",
            evidence=_numbers(use),
        )

    def _workers(self, use: ProcessorUse, share: float, severity: Severity) -> Finding:
        busy = use.num_processes * use.workers_s / use.wall_s
        return Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            share_is="estimate",
            summary=f"The loader's workers keep {busy:.1f} of {_cpus(use.num_cpus)} busy, and the thread that trains "
            f"waits for a CPU for {100 * share:.0f} % of the time.",
            advice="Make loading cheaper (decode and transform once and store the result), or train where there are "
            "more CPUs.",
            evidence=_numbers(use),
        )

    def _others(self, use: ProcessorUse, share: float) -> Finding:
        busy, fits = (use.others_s or 0.0) / use.wall_s, _num_fitting(use)
        fewer = f"; until then, torch.set_num_threads({fits}) leaves them their part" if fits < use.num_threads else ""
        return Finding(
            rule=self.id(),
            severity=Severity.INFO,
            share=share,
            share_is="lower bound",
            summary=f"Other programs keep {busy:.1f} of {_cpus(use.num_cpus)} busy, and the thread that trains waits "
            f"for a CPU for {100 * share:.0f} % of the time.",
            advice=f"Stop what else runs on this machine (top shows it) or give this run CPUs of its own{fewer}.",
            evidence=_numbers(use),
        )


def _by_cause(use: ProcessorUse) -> dict[str, float]:
    """The share of the time in which the thread waits for a CPU, given out by how many CPUs each cause wants."""
    wanted = {
        "threads": max(0.0, use.num_threads * use.num_processes - use.num_cpus),
        "workers": use.num_processes * use.workers_s / use.wall_s,
        "others": (use.others_s or 0.0) / use.wall_s,
    }
    total = sum(wanted.values())
    delayed = min(1.0, use.delayed_s / use.wall_s)
    return {cause: delayed * cpus / total if total > 0 else 0.0 for cause, cpus in wanted.items()}


def _num_fitting(use: ProcessorUse) -> int:
    """Threads for each process of this run that find a CPU, beside what others keep busy."""
    return max(1, round(use.num_cpus - (use.others_s or 0.0) / use.wall_s) // use.num_processes)


def _exposed(evidence: Evidence) -> float:
    """The most of a step that a host which waits can cost: all of it on a CPU, what a device is idle elsewhere."""
    if evidence.run is None or not evidence.run.device_is_asynchronous:
        return 1.0
    devices = () if evidence.breakdown is None else evidence.breakdown.devices
    return max((max(0.0, 1.0 - device.busy_share) for device in devices), default=0.0)


def _cpus(number: int) -> str:
    return f"{number} CPUs" if number > 1 else "1 CPU"


def _numbers(use: ProcessorUse) -> dict[str, float | int | None]:
    return {
        "delayed_s": use.delayed_s,
        "running_s": use.running_s,
        "wall_s": use.wall_s,
        "process_cpu_s": use.process_s,
        "workers_cpu_s": use.workers_s,
        "others_cpu_s": use.others_s,
        "num_threads": use.num_threads,
        "num_processes": use.num_processes,
        "num_workers": use.num_workers,
        "num_cpus": use.num_cpus,
        "num_steps": use.num_steps,
    }
