"""Places in the code that make the host wait for the device, as immutable data.

Owns their shapes and units. Knows nothing of how they are seen or judged.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SyncSite:
    """A place that makes the host wait for the device: one call of one line, seen in the audited steps.

    ``owner`` says whose call it is: ``user``, ``lightning``, ``optimizer``, ``torch`` or ``library``; ``file`` and
    ``line`` are the user's frame that led to it, if there is one. ``device_type`` is that of the tensor.
    """

    call: str
    owner: str
    device_type: str
    calls_per_step: float
    s_per_step: float
    in_every_step: bool
    file: str | None = None
    line: int | None = None
    function: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class CallSite:
    """A line of the user's code and how many calls of torch it leads to in a step (without the backward pass)."""

    file: str
    line: int
    function: str
    calls_per_step: float


@dataclass(frozen=True)
class SyncSites:
    """All call sites seen while ``num_steps`` steps were audited; ``complete`` is False where some can't be seen.

    ``busiest`` are the user's lines with the most calls of torch of any kind, in order; empty where they can't be seen.
    """

    num_steps: int
    sites: tuple[SyncSite, ...] = ()
    complete: bool = True
    busiest: tuple[CallSite, ...] = ()
