"""Rule: the device waits for other devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import HostExchange, exchange_on_host, longest_communication


@dataclass(frozen=True)
class ExposedCommunication(Rule):
    """The device exchanges data with others and computes nothing meanwhile.

    What it is: kernels of NCCL, RCCL, oneCCL and the like (all-reduce, all-gather, all-to-all) during which no other
    kernel runs on the device. Without a device: exchanges of gloo, MPI or UCC that the training waits for.

    Why it costs: the exchange of gradients can run beside the backward pass; what of it can't be hidden makes the
    step longer on every rank. The kernel on a rank that is early also waits for the last one to come.

    How it is measured: the union of communication kernels minus the union of all other kernels, in the window of the
    trace, on the device where that is most. In a trace without a device, the lower quartile over its steps of the time
    up to the end of each exchange in which no operator runs on the threads that train: what comes and goes is a
    process that the system displaced, not the exchange. Where the traces or summaries of
    several ranks show that one of them is late, that is the cause and is reported instead (``straggler-rank``).

    Fix: larger batches or ``accumulate_grad_batches``; ``gradient_as_bucket_view=True`` and a larger
    ``bucket_cap_mb`` in ``DDPStrategy``; gradients in bf16 (``ddp_comm_hook``); fewer, larger collectives.

    Silent when: that is under 5 % of the step, or without a device under 10 %: there ranks that share a machine are
    never quite together.
    """

    warning_share: float = 0.05
    host_warning_share: float = 0.1
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("trace",)
    symptom_of: ClassVar[tuple[str, ...]] = ("straggler-rank",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where several processes train but the trace shows none of their exchanges."""
        reason = super().skip_reason(evidence)
        several = evidence.run is not None and evidence.run.world_size > 1
        if reason is not None or not several or evidence.breakdown is None or evidence.breakdown.devices:
            return reason
        return None if _on_host(evidence) else "the trace shows no device, and no exchange of a training on the host"

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding: for the device where most is exposed, or for the host if there is no device."""
        assert evidence.trace is not None and evidence.breakdown is not None
        devices = evidence.breakdown.devices
        worst = max(devices, key=lambda device: device.exposed_communication_share, default=None)
        if worst is not None:
            exposed, share = worst.exposed_communication_share, worst.communication_share
            if exposed >= self.warning_share:
                yield self._finding(exposed, share, longest_communication(evidence.trace), worst.index)
            return
        host = _on_host(evidence)
        if host is not None and host.exposed_share >= self.host_warning_share:
            yield self._finding(host.exposed_share, host.share, host.name, None)

    def _finding(
        self, exposed_share: float, communication_share: float, name: str | None, index: int | None
    ) -> Finding:
        share = min(1.0, exposed_share)
        hidden = 1.0 - share / communication_share if communication_share > 0 else 0.0
        reduces = name is None or "reduce" in name.lower()
        advice = _REDUCE if reduces else _OTHERS
        late = share >= self.critical_share
        who = "the training" if index is None else "the device"
        return Finding(
            rule=self.id(),
            severity=Severity.CRITICAL if late else Severity.WARNING,
            share=share,
            share_is="lower bound" if index is None else "upper bound",
            summary=f"For {100 * share:.0f} % of the time {who} only exchanges data with others or waits for "
            f"them; {100 * hidden:.0f} % of its communication is hidden behind computation.",
            advice=f"{_COMPARE}{advice[0].lower()}{advice[1:]}" if late else advice,
            where=Where(op=name),
            evidence={
                "communication_share": communication_share,
                "exposed_share": share,
                "device": index,
            },
        )


def _on_host(evidence: Evidence) -> HostExchange | None:
    """What is exchanged where the host trains; None where a device does that the trace does not show."""
    on_device = evidence.run is not None and evidence.run.device_type != "cpu"
    if evidence.trace is None or on_device or len(evidence.trace.runtime):
        return None
    return exchange_on_host(evidence.trace)


_COMPARE = "Compare the ranks first (perfwatch analyze with the traces of all of them), since one may be late; else "
_REDUCE = (
    "Exchange less often or in larger pieces: accumulate_grad_batches=2, DDPStrategy(bucket_cap_mb=100, "
    "gradient_as_bucket_view=True), or gradients in bf16 by ddp_comm_hook."
)
_OTHERS = (
    "Start the exchange early and compute meanwhile (async_op=True, a stream of its own), or send fewer, larger pieces."
)
