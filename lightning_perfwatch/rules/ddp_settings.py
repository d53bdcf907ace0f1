"""Rule: settings of data-parallel training that cost more than they need to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import DataParallelism
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import Exchanges, exchanges_in_steps, search_on_host_share


@dataclass(frozen=True)
class DdpSettings(Rule):
    """Data-parallel training does more than it has to.

    What it is: one of five. Gradients are exchanged after batches on which no optimizer steps (manual optimisation
    that accumulates without ``no_sync``). GPUs exchange through gloo. Parameters without a gradient are searched for
    where there are none (``find_unused_parameters=True``). Gradients are kept twice (``gradient_as_bucket_view=False``)
    in memory that is short. One process serves several devices (``DataParallel``).

    Why it costs: an exchange costs the same whether its result is used or not. Gloo copies through the host. The search
    walks the graph of every step before its backward pass and keeps buckets in a worse order. ``DataParallel`` copies
    the model to all devices in every step, and its threads share one interpreter.

    How it is measured: all-reduces inside the backward pass, in steps of the trace with and without a step of the
    optimizer; the share is that part of the exchange that nothing hides: of communication kernels in the trace, or on
    a CPU of what DistributedDataParallel itself timed last. The other settings are what the wrapper tells, with the
    parameters that it found unused. What the search takes is told by a trace without a device, since nothing hides it
    there; that is a lower bound, as it holds nothing of the order of the buckets. What the others cost can't be told
    without trying.

    Fix: as each finding says.

    Silent when: there is one process, or the settings fit. The second copy is only information,
    and so is a search of less than 5 % or of unknown cost.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_gradients_share: float = 0.05

    needs_any: ClassVar[tuple[str, ...]] = ("resources", "trace")

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where neither the wrapper nor a trace tells."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.resources is None or evidence.trace is not None:
            return reason
        return evidence.resources.missing.get("parallelism")  # without a reason: the model is in no wrapper

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """A finding for each setting."""
        if evidence.trace is not None:
            exchanges = exchanges_in_steps(evidence.trace)
            if exchanges.num_optimizer_steps and exchanges.num_exchanging_alone:
                yield self._needless(exchanges, _exposed_share(evidence))
        wrapper = None if evidence.resources is None else evidence.resources.parallelism
        if wrapper is None:
            return
        if wrapper.wrapper == "DataParallel":
            yield self._says(Severity.WARNING, *_DATA_PARALLEL, wrapper)
        if wrapper.backend == "gloo" and evidence.run is not None and evidence.run.device_type == "cuda":
            yield self._says(Severity.WARNING, *_GLOO, wrapper)
        if wrapper.find_unused_parameters and not wrapper.static_graph and wrapper.unused_parameter_bytes == 0:
            yield self._search(wrapper, evidence)
        if wrapper.gradient_as_bucket_view is False and self._is_large(wrapper, evidence):
            gib = (wrapper.parameter_bytes or 0) / 2**30
            yield self._says(Severity.INFO, _TWICE[0].format(gib=gib), _TWICE[1], wrapper)

    def _needless(self, exchanges: Exchanges, exposed_share: float | None) -> Finding:
        part = exchanges.num_exchanging_alone / exchanges.num_exchanging
        share = None if exposed_share is None else min(1.0, part * exposed_share)
        return Finding(
            rule=self.id(),
            severity=self._severity(share),
            share=share,
            summary=f"In {exchanges.num_exchanging_alone} of {exchanges.num_exchanging} steps gradients are exchanged "
            "although no optimizer steps on them.",
            advice="Run the backward pass of batches that only accumulate inside `with self.trainer.model.no_sync():`.",
            evidence={
                "num_exchanging_steps": exchanges.num_exchanging,
                "num_needless_steps": exchanges.num_exchanging_alone,
                "exposed_exchange_share": exposed_share,
            },
        )

    def _search(self, wrapper: DataParallelism, evidence: Evidence) -> Finding:
        on_host = evidence.trace is not None and evidence.breakdown is not None and not evidence.breakdown.devices
        share = search_on_host_share(evidence.trace) if on_host and evidence.trace is not None else None
        finding = self._says(self._severity(share), *_SEARCH, wrapper)
        return replace(
            finding, share=share, share_is="lower bound", evidence={**finding.evidence, "search_share": share}
        )

    def _severity(self, share: float | None) -> Severity:
        return Severity.INFO if share is None else Severity.of(share, self.warning_share, self.critical_share)

    def _is_large(self, wrapper: DataParallelism, evidence: Evidence) -> bool:
        """Whether a second copy of the gradients takes a part of the device's memory that is worth a word."""
        memory = None if evidence.resources is None else evidence.resources.memory
        if memory is None or not memory.capacity_bytes or wrapper.parameter_bytes is None:
            return False
        return wrapper.parameter_bytes >= self.min_gradients_share * memory.capacity_bytes

    def _says(self, severity: Severity, summary: str, advice: str, wrapper: DataParallelism) -> Finding:
        return Finding(
            rule=self.id(),
            severity=severity,
            share=None,
            summary=summary,
            advice=advice,
            evidence={
                "wrapper": wrapper.wrapper,
                "backend": wrapper.backend,
                "find_unused_parameters": wrapper.find_unused_parameters,
                "unused_parameter_bytes": wrapper.unused_parameter_bytes,
                "static_graph": wrapper.static_graph,
                "gradient_as_bucket_view": wrapper.gradient_as_bucket_view,
                "parameter_bytes": wrapper.parameter_bytes,
            },
        )


_DATA_PARALLEL = (
    "DataParallel copies the model to every device in each step and serves all of them from one process.",
    'Use Trainer(strategy="ddp"), which has a process for each device, and take nn.DataParallel out of the model.',
)
_GLOO = (
    "GPUs exchange gradients through gloo, which copies them to the host and back.",
    'Use DDPStrategy(process_group_backend="nccl").',
)
_SEARCH = (
    "DistributedDataParallel searches every step for parameters without a gradient and has found none.",
    'Use strategy="ddp" without find_unused_parameters=True.',
)
_TWICE = (
    "DistributedDataParallel keeps a second copy of all gradients, {gib:.1f} GiB of the device's memory.",
    "Use DDPStrategy(gradient_as_bucket_view=True).",
)


def _exposed_share(evidence: Evidence) -> float | None:
    """The part of a step in which gradients are exchanged and nothing else is done; None where it is not known."""
    devices = () if evidence.breakdown is None else evidence.breakdown.devices
    if devices:
        return max(device.exposed_communication_share for device in devices)
    wrapper = None if evidence.resources is None else evidence.resources.parallelism
    if wrapper is None or wrapper.exposed_s is None or evidence.steps is None or evidence.steps.mean_step_s <= 0:
        return None
    return min(1.0, wrapper.exposed_s / evidence.steps.mean_step_s)
