"""What a training got done, and what that is measured by: amounts, rates' spreads and FLOPs, as immutable data.

Owns their shapes and units. Knows nothing of how they are counted or shown. Not known is None, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Some steps measured between two synchronisations of the device; only time spent on training counts.

    ``clean`` is False when the interval holds first, audited or profiled steps. ``tokens`` (padding included),
    ``nonpadding_tokens`` and ``samples`` are None where they can't be told. ``end_s`` is when it ended, in seconds of
    wall clock since the first step began.
    """

    last_step: int
    num_steps: int
    duration_s: float
    samples: int | None
    tokens: int | None
    clean: bool = True
    nonpadding_tokens: int | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Totals:
    """What this process has trained on; None where it can't be told."""

    num_batches: int | None
    num_optimizer_steps: int | None
    samples: int | None
    tokens: int | None
    nonpadding_tokens: int | None = None


@dataclass(frozen=True)
class Spread:
    """The median of a rate over intervals and a 95 % confidence interval for it, ``low`` to ``high``."""

    median: float
    low: float
    high: float
    num_intervals: int


SYNC_POLICY = "at the edges of intervals only, never inside of one"


@dataclass(frozen=True)
class Counted:
    """What this process trained on since the fit began, and how it was measured.

    ``in_all`` adds the sessions before this one, as a checkpoint tells of them; None where nothing tells.
    ``nonpadding_by`` is what told padding from tokens: ``attention_mask``, ``cu_seqlens`` or ``labels`` (tokens that
    have a label). ``num_synchronizations`` is how often PerfWatch made the host wait for the device.
    """

    num_batches: int
    num_optimizer_steps: int
    samples: int | None
    tokens: int | None
    intervals: tuple[Interval, ...] = ()
    num_synchronizations: int = 0
    nonpadding_tokens: int | None = None
    nonpadding_by: str | None = None
    in_all: Totals | None = None
    sync_policy: str = SYNC_POLICY


@dataclass(frozen=True)
class Flops:
    """Model FLOPs of a mean judged batch of this process, forward and backward, and its device's dense peak.

    ``source`` is ``counted`` (from the operators of one step) or ``user``; ``dtype`` is the kind of numbers that the
    peak is of; ``reason`` says what is not known of the two, and why.
    """

    flops_per_batch: float | None = None
    source: str | None = None
    dtype: str | None = None
    peak_flops_per_s: float | None = None
    peak_source: str | None = None
    reason: str | None = None
