"""What a rule says: a finding as plain data.

Owns severity, place and finding. Knows nothing of where evidence comes from or how a finding is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Severity(str, Enum):
    """How much a finding matters; the text form is what stands in ``report.json``."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Order of severity: 0 for info, 1 for warning, 2 for critical."""
        return tuple(Severity).index(self)

    @classmethod
    def of(cls, share: float, warning_share: float, critical_share: float) -> Severity:
        """The severity of a cost: of ``share`` (0..1) of the step, by a rule's two thresholds."""
        if share >= critical_share:
            return cls.CRITICAL
        return cls.WARNING if share >= warning_share else cls.INFO


SHARE_KINDS = ("upper bound", "estimate", "lower bound")
"""What ``Finding.share_is`` may be."""


@dataclass(frozen=True)
class Where:
    """The place a finding speaks of; every part is None when it is not known.

    ``steps`` counts training batches since the fit began, from 0.
    """

    file: str | None = None
    line: int | None = None
    op: str | None = None
    module: str | None = None
    steps: tuple[int, ...] | None = None
    rank: int | None = None

    @property
    def code(self) -> str | None:
        """``file:line``, by which a report finds the lines around it; None if either is not known."""
        return f"{self.file}:{self.line}" if self.file and self.line else None

    def __str__(self) -> str:
        return " · ".join(part for part in (self.code or self.file, self.module, self.op) if part)


@dataclass(frozen=True)
class Finding:
    """One bottleneck: what it is, what it costs, where it is and what to change.

    Args:
        rule: id of the rule that speaks, such as ``"dataloader-starvation"``.
        severity: info, warning or critical.
        share: part of the step time (0..1) that would disappear with the cause; None when it is not measured.
        summary: one plain sentence with numbers and units.
        advice: one imperative sentence with the concrete value to set.
        where: the place in the user's code, as far as it is known.
        evidence: the raw numbers behind the sentence; JSON-safe, units as suffixes.
        share_of: what ``share`` is a part of: the mean ``step``, or the wall clock of the ``run`` (validation,
            checkpoints and starts of epochs lie in no step).
        share_is: how ``share`` stands to what the fix brings: an ``upper bound`` is all the time that the cause
            takes, an ``estimate`` comes from ratios that were measured elsewhere, and beside a ``lower bound`` the
            fix saves more that a run does not show.

    Raises:
        ValueError: ``share`` is outside 0..1, or ``share_of`` or ``share_is`` is something else.
    """

    rule: str
    severity: Severity
    share: float | None
    summary: str
    advice: str
    where: Where = field(default_factory=Where)
    evidence: dict[str, Any] = field(default_factory=dict)
    share_of: str = "step"
    share_is: str = "upper bound"

    def __post_init__(self) -> None:
        if self.share is not None and not 0.0 <= self.share <= 1.0:
            raise ValueError(f"Finding.share must lie in 0..1 or be None, got {self.share!r} from {self.rule}.")
        if self.share_of not in ("step", "run"):
            raise ValueError(f"Finding.share_of must be 'step' or 'run', got {self.share_of!r} from {self.rule}.")
        if self.share_is not in SHARE_KINDS:
            known = ", ".join(map(repr, SHARE_KINDS))
            raise ValueError(f"Finding.share_is must be one of {known}, got {self.share_is!r} from {self.rule}.")

    @property
    def gain(self) -> float | None:
        """Speed-up, ``1 / (1 - share)`` (Amdahl's law), bound as ``share_is``; None when the share is unknown or 1."""
        if self.share is None or self.share >= 1.0:
            return None
        return 1.0 / (1.0 - self.share)
