"""Rule: the user's code makes the host wait for the device in every step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.frequency import how_often
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.sync_sites import SyncSite
from lightning_perfwatch.trace import Trace, Waits, calls_per_step, waits_in_steps


@dataclass(frozen=True)
class HostSync(Rule):
    """The training code makes the host wait for the device in every step.

    What it is: ``.item()``, ``float(tensor)``, ``if tensor:``, ``.cpu()``, ``.numpy()``, ``print(tensor)``, indexing
    with a boolean mask and the like need a value on the host, so the host waits until the device has computed it.

    Why it costs: a GPU is kept busy by a host that runs ahead of it. Each wait ends that lead; when the host goes on,
    the device has run dry and idles until the next work reaches it. On a device that is busy anyway the wait costs
    nothing, which is why the cost is measured and not the call.

    How it is measured: two steps before the profiled window are audited; every waiting call is noted with the line
    of the user's code that led to it. A call counts if it was made in each of them and, where a trace shows it, in at
    least 90 % of the profiled steps. On a GPU its exposed cost is the time in which the device idles because of
    synchronisations, from the trace. On a CPU run nothing has to be waited for: the share is what the call itself
    takes here, and the warning is for the day the code runs on a GPU. Calls of Lightning's own logging and of the
    optimizer are not the user's and are left out; where they wait as well, the exposed cost is split by the time that
    each holds up the host. A trace of which nothing else is known tells the operator that waits, the line of code too
    if it was recorded with stacks, but not whose call it is.

    Fix: keep the tensor (``loss.detach()``) and read it every 50 steps or once an epoch; let ``self.log`` do it
    without ``prog_bar=True``; turn ``if tensor:`` into ``torch.where``.

    Silent when: no audited call is the user's, or it is not made in every step. On a GPU it is only information as
    long as the exposed cost is under 5 % of the step. In a bare trace: under 2 %, or waits in fewer than 90 % of the
    steps.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_steps_share: float = 0.9
    max_sites: int = 5
    notable_share: float = 0.02

    needs_any: ClassVar[tuple[str, ...]] = ("syncs", "trace")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """A run needs its audit; a trace alone a device, whose idle time tells what waiting costs."""
        if evidence.run is not None:
            missing = next((name for name in ("syncs", "steps") if getattr(evidence, name) is None), None)
            return None if missing is None else evidence.why_missing(missing)
        reason = super().skip_reason(evidence)
        if reason is None and evidence.sync_idle_share() is None:
            return "without a device and its host's calls in the trace nothing tells what waiting costs"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for each line, the most expensive ones."""
        if evidence.run is None:
            yield from self._of_trace(evidence)
            return
        assert evidence.syncs is not None
        asynchronous = evidence.run.device_is_asynchronous
        sites = [
            site
            for site in evidence.syncs.sites
            if site.owner in ("user", "library")
            and site.in_every_step
            and site.file is not None
            and not (asynchronous and site.device_type == "cpu")
            and self._is_confirmed(site, evidence.trace)
        ][: self.max_sites]
        if not asynchronous:
            yield from (self._on_cpu(site, evidence) for site in sites)
        elif sites:
            yield self._on_device(sites, evidence)

    def _of_trace(self, evidence: Evidence) -> Iterable[Finding]:
        share = evidence.sync_idle_share()
        if evidence.trace is None or share is None or share < self.notable_share:
            return
        waits = waits_in_steps(evidence.trace)
        if waits is None or waits.steps_share < self.min_steps_share:
            return
        code = waits.place
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            summary=f"The host waits for the GPU {how_often(waits.num_waits, waits.per_step)}, mostly in "
            f"{waits.operator or waits.call}: the GPU idles for {100 * share:.0f} % of the time because of it.",
            advice="Keep values on the GPU: no .item(), .cpu(), if tensor:, print(tensor) or boolean masks in the "
            "step; read what you need every 50 steps.",
            where=Where(op=waits.operator or waits.call)
            if code is None
            else Where(file=code.file, line=code.line, op=waits.operator or waits.call),
            evidence=_numbers_of(waits),
        )

    def _is_confirmed(self, site: SyncSite, trace: Trace | None) -> bool:
        """Whether the trace agrees that this is done in every step; it can only tell for reads of single values."""
        if trace is None or site.call not in _SCALAR_READS:
            return True
        counts = calls_per_step(trace, _SCALAR_OPERATORS)
        return not len(counts) or float((counts > 0).mean()) >= self.min_steps_share

    def _on_cpu(self, site: SyncSite, evidence: Evidence) -> Finding:
        assert evidence.steps is not None
        step_s = evidence.steps.mean_step_s
        share = min(1.0, site.s_per_step / step_s) if step_s > 0 else 0.0
        return Finding(
            rule=self.id(),
            severity=Severity.CRITICAL if share >= self.critical_share else Severity.WARNING,
            share=share,
            summary=f"{_calls(site)} in each step. On this CPU that takes {site.s_per_step * 1e6:.0f} µs of a step "
            f"of {step_s * 1e3:.1f} ms, since nothing has to be waited for; on a GPU every such call stalls the "
            "training until the GPU has done all its queued work.",
            advice=_advice(site),
            where=Where(file=site.file, line=site.line, op=site.code),
            evidence={**_numbers(site), "step_s": step_s},
        )

    def _on_device(self, sites: list[SyncSite], evidence: Evidence) -> Finding:
        share = evidence.sync_idle_share(sites)
        worst = sites[0]
        others = f" ({len(sites) - 1} more such line{'s' if len(sites) > 2 else ''})" if len(sites) > 1 else ""
        if share is None:
            severity, cost = Severity.INFO, "what that costs was not measured, since no trace tells"
        else:
            severity = Severity.of(share, self.warning_share, self.critical_share)
            cost = f"the device idles for {100 * share:.0f} % of the time because the host waited for it"
        return Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            summary=f"{_calls(worst)} in each step{others}: {cost}.",
            advice=_advice(worst),
            where=Where(file=worst.file, line=worst.line, op=worst.code),
            evidence={"sites": [{"file": site.file, "line": site.line, **_numbers(site)} for site in sites]},
        )


_SCALAR_READS = frozenset((".item()", "float(tensor)", "int(tensor)", "bool(tensor)", "printing a tensor"))
_SCALAR_OPERATORS = ("aten::item", "aten::_local_scalar_dense")


def _numbers_of(waits: Waits) -> dict[str, object]:
    return {
        "waits_per_step": waits.per_step,
        "steps_share": waits.steps_share,
        "host_share": waits.host_share,
        "call": waits.call,
        "operator": waits.operator,
    }


def _calls(site: SyncSite) -> str:
    times = "once" if site.calls_per_step == 1 else f"{site.calls_per_step:g} times"
    inside = f" in {site.function}()" if site.function and site.function.isidentifier() else ""
    library = " (called by a library)" if site.owner == "library" else ""
    return f"{site.call}{inside}{library} makes the host wait for the device {times}"


def _advice(site: SyncSite) -> str:
    if site.call == "bool(tensor)":
        return "Keep the decision on the device with torch.where or a mask instead of branching on a tensor."
    if site.call in (".nonzero()", ".unique()", ".masked_select()") or "mask" in site.call:
        return "Use torch.where or a fixed-size mask, whose result has a size that the host knows."
    if site.call in (".cpu()", ".numpy()", ".tolist()", ".to()", "conversion to numpy"):
        return "Collect the tensors on the device (.detach()) and copy them once every 50 steps or once an epoch."
    return "Keep the tensor with .detach() and read it every 50 steps, or hand it to self.log without prog_bar=True."


def _numbers(site: SyncSite) -> dict[str, object]:
    return {
        "call": site.call,
        "owner": site.owner,
        "calls_per_step": site.calls_per_step,
        "host_s_per_step": site.s_per_step,
    }
