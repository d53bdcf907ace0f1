"""Rule: Lightning's own logging makes the host wait for the device in every step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.sync_sites import SyncSite


@dataclass(frozen=True)
class LoggingSync(Rule):
    """Lightning's own logging makes the host wait for the device in every step.

    What it is: ``self.log(..., prog_bar=True)`` shows the value in the progress bar, which reads it from the device in
    each step; with ``Trainer(log_every_n_steps=1)`` the loggers do so too.

    Why it costs: as any other read of a value it ends the host's lead over the device, and the device runs dry.

    How it is measured: the calls that wait are noted in two audited steps, and these are the ones that Lightning or
    torchmetrics makes, in each of them. On a GPU their exposed cost is their part, by the time that they hold up the
    host, of the device's idle time because of synchronisations, from the trace. On a CPU nothing is waited for: the
    share is what the calls take here.

    Fix: ``self.log(...)`` without ``prog_bar=True``, a progress bar that draws less often
    (``TQDMProgressBar(refresh_rate=50)``), ``Trainer(log_every_n_steps=50)``.

    Silent when: no such call is made in every step. It is only information on a CPU, and on a GPU as long as it costs
    under 5 % of the step.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("run", "syncs", "steps")

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding for all such calls."""
        assert evidence.run is not None and evidence.syncs is not None
        asynchronous = evidence.run.device_is_asynchronous
        sites = [
            site
            for site in evidence.syncs.sites
            if site.owner == "lightning" and site.in_every_step and not (asynchronous and site.device_type == "cpu")
        ]
        if sites:
            yield self._finding(sites, evidence, asynchronous=asynchronous)

    def _finding(self, sites: list[SyncSite], evidence: Evidence, *, asynchronous: bool) -> Finding:
        assert evidence.steps is not None
        worst, spent_s = sites[0], sum(site.s_per_step for site in sites)
        calls = sum(site.calls_per_step for site in sites)
        severity = Severity.INFO
        if asynchronous:
            share = evidence.sync_idle_share(sites)
            if share is None:
                cost = "what that costs was not measured, since no trace tells"
            else:
                cost = f"the device idles for {100 * share:.0f} % of the time because of it"
                severity = Severity.of(share, self.warning_share, self.critical_share)
        else:
            share = min(1.0, spent_s / evidence.steps.mean_step_s) if evidence.steps.mean_step_s > 0 else 0.0
            cost = (
                f"on this CPU that takes {spent_s * 1e6:.0f} µs of a step of {evidence.steps.mean_step_s * 1e3:.1f} "
                "ms, since nothing has to be waited for; on a GPU it would stall the training each time"
            )
        return Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            summary=f"Lightning's logging reads values from the device {calls:.3g} times per step ({worst.call}): "
            f"{cost}.",
            advice="Log without prog_bar=True, or draw the bar less often, "
            "Trainer(callbacks=[TQDMProgressBar(refresh_rate=50)]), and set log_every_n_steps=50.",
            where=Where(file=worst.file, line=worst.line, op=worst.code),
            evidence={"calls_per_step": calls, "host_s_per_step": spent_s, "call": worst.call},
        )
