"""One thing that was looked at on a machine, and how it stands with it.

Owns the shape and the ways to make one. Knows nothing of what there is to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How it stands with one thing."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``remedy`` is one sentence, None where all is well.

    Nothing can be measured, or not what this machine is for, without what ``is_essential``.
    """

    name: str
    status: Status
    detail: str
    remedy: str | None = None
    is_essential: bool = False


def ok(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, Status.OK, detail)


def warning(name: str, detail: str, remedy: str) -> Check:
    """It can be measured, but not as well as it might."""
    return Check(name, Status.WARNING, detail, remedy)


def missing(name: str, detail: str, remedy: str, is_essential: bool = False) -> Check:
    """It is not there, or can't be used."""
    return Check(name, Status.MISSING, detail, remedy, is_essential)
