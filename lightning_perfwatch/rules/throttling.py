"""Rule: the hardware slows down because it is too hot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.resources import Clocks
from lightning_perfwatch.rules.rule import Rule


@dataclass(frozen=True)
class Throttling(Rule):
    """The device, or the CPU, runs slower than it could because of heat or its power supply.

    What it is: hardware that gets too hot, or whose supply gives way, lowers its clock until it has cooled.

    Why it costs: what is limited by arithmetic takes longer in proportion. A run that begins fast and gets slower
    looks like a fault of the software.

    How it is measured: a GPU's driver tells the clock and the reason for it, read where intervals of steady steps end
    (pynvml has to be installed). A power cap is none of the reasons: a loaded card runs at it. The share is the
    part of the readings with such a reason times the part of the clock that is missing in them, against the readings
    without one or else the highest clock. On a CPU the kernel counts the time in which the hottest core was slowed
    down; by how much is not known, so the finding has no share.

    Fix: better cooling or a lower power limit, which costs less than throttling; on a CPU fewer cores at work.

    Silent when: fewer than ``min_readings`` readings or under ``min_throttled_share`` of them (or of the time) are
    slowed down, or under 5 % of the time would be won.
    """

    warning_share: float = 0.05
    critical_share: float = 0.25
    min_readings: int = 5
    min_throttled_share: float = 0.1

    needs: ClassVar[tuple[str, ...]] = ("resources",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and where clocks can't be read or were read too seldom."""
        reason = super().skip_reason(evidence)
        if reason is not None or evidence.resources is None:
            return reason
        clocks = evidence.resources.clocks
        if clocks is None:
            return evidence.resources.why_missing("clocks")
        if clocks.throttled_s is None and clocks.num_readings < self.min_readings:
            return f"{clocks.num_readings} readings of the clock are too few, {self.min_readings} are needed"
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        assert evidence.resources is not None and evidence.resources.clocks is not None
        clocks = evidence.resources.clocks
        if clocks.throttled_s is not None:
            part = min(1.0, clocks.throttled_s / clocks.wall_s) if clocks.wall_s > 0 else 0.0
            if part >= self.min_throttled_share:
                yield self._cpu(clocks, part)
        elif clocks.clock_mhz is not None and clocks.full_clock_mhz:
            part = clocks.num_throttled / clocks.num_readings
            share = part * max(0.0, 1.0 - clocks.clock_mhz / clocks.full_clock_mhz)
            if part >= self.min_throttled_share and share >= self.warning_share:
                yield self._device(clocks, part, share)

    def _device(self, clocks: Clocks, part: float, share: float) -> Finding:
        hot = "" if clocks.temperature_c is None else f", at up to {clocks.temperature_c:.0f} °C"
        return Finding(
            rule=self.id(),
            severity=Severity.CRITICAL if share >= self.critical_share else Severity.WARNING,
            share=share,
            share_is="estimate",
            summary=f"For {100 * part:.0f} % of the time the GPU is slowed down by heat or its power supply, to "
            f"{clocks.clock_mhz:.0f} of {clocks.full_clock_mhz:.0f} MHz{hot}.",
            advice="Improve the cooling of this machine, or lower the power limit (nvidia-smi -pl) until the reason "
            "is gone; nvidia-smi -q -d PERFORMANCE names it.",
            evidence=_numbers(clocks),
        )

    def _cpu(self, clocks: Clocks, part: float) -> Finding:
        return Finding(
            rule=self.id(),
            severity=Severity.INFO,
            share=None,
            summary=f"For {100 * part:.0f} % of the time at least one core of the CPU is slowed down by heat.",
            advice="Improve the cooling of this machine, or train with fewer threads, torch.set_num_threads(...).",
            evidence=_numbers(clocks),
        )


def _numbers(clocks: Clocks) -> dict[str, float | int | None]:
    return {
        "wall_s": clocks.wall_s,
        "throttled_s": clocks.throttled_s,
        "num_readings": clocks.num_readings,
        "num_throttled": clocks.num_throttled,
        "clock_mhz": clocks.clock_mhz,
        "full_clock_mhz": clocks.full_clock_mhz,
        "temperature_c": clocks.temperature_c,
    }
