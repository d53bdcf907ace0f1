"""What facts about a machine mean for measuring on it, all together.

Pure: facts in, checks out. Asks nobody and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightning_perfwatch.checkup.check import Check, Status
from lightning_perfwatch.checkup.extra_checks import EXTRA_CHECKS
from lightning_perfwatch.checkup.facts import MachineFacts
from lightning_perfwatch.checkup.system_checks import SYSTEM_CHECKS
from lightning_perfwatch.checkup.torch_checks import TORCH_CHECKS


def judge(facts: MachineFacts) -> tuple[Check, ...]:
    """A check for each thing that matters for measuring, the most needed first."""
    return tuple(check for look in (*TORCH_CHECKS, *SYSTEM_CHECKS, *EXTRA_CHECKS) for check in look(facts))


def lacking(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Those without which nothing is measured here, or not what the machine is for."""
    return tuple(check for check in checks if check.is_essential and check.status is Status.MISSING)
