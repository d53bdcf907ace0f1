"""The base of every rule and the way rules are found.

A rule is a frozen dataclass in a module of its own: its fields are thresholds, its docstring is its page,
its module's name is its id. A rule reads evidence and returns findings; it never prints, logs or reads a
clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding


@dataclass(frozen=True)
class Rule:
    """Base of all rules.

    ``needs`` names the fields of :class:`Evidence` without which the rule can say nothing; when one of them
    is None the rule is skipped and the reason is reported. Of ``needs_any`` one is enough.

    ``symptom_of`` names, by id, the rules whose bottleneck can show as this one too. Where theirs explain at least
    half of what a finding of this rule costs, it is not reported: the cause is.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    needs_any: ClassVar[tuple[str, ...]] = ()
    symptom_of: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def id(cls) -> str:
        """The rule's id: its module's name with hyphens, ``dataloader-starvation``.

        A rule of another package is named after its class: ``SmallBatch`` is ``small-batch``.
        """
        package, _, module = cls.__module__.rpartition(".")
        if package == __package__:
            return module.replace("_", "-")
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    def skip_reason(self, evidence: Evidence) -> str | None:
        """Why the rule can't judge this evidence, in one clause; None when it can."""
        for name in self.needs:
            if getattr(evidence, name) is None:
                return evidence.why_missing(name)
        if self.needs_any and all(_is_absent(evidence, name) for name in self.needs_any):
            return " and ".join(dict.fromkeys(evidence.why_missing(name) for name in self.needs_any))
        return None

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """Findings for this evidence; nothing when all is well. Called only if ``skip_reason`` gave None."""
        raise NotImplementedError


def _is_absent(evidence: Evidence, name: str) -> bool:
    value = getattr(evidence, name)
    return value is None or value == ()
