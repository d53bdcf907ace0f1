"""Keeps what was timed of each step, in bounded memory, and judges which steps are steady.

Knows no clock and no Trainer: durations are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.phases import StepParts
from lightning_perfwatch.measurements import PHASES, EpochStart, HookTime, Seconds, StepTimes

MOST_STEPS = 8192
FEWEST_STEPS = 3


class Kind(IntEnum):
    """How well a step stands for the run: the smaller, the better."""

    STEADY = 0
    EARLY = 1
    EPOCH_START = 2
    DISTURBED = 3


class StepLog:
    """The newest 8192 steps by phase, and sums over all steps."""

    def __init__(self, *, on_device: bool = False) -> None:
        self._host_s = np.zeros((MOST_STEPS, len(PHASES)))
        self._device_s = np.full((MOST_STEPS, len(PHASES)), np.nan) if on_device else None
        self._kinds = np.full(MOST_STEPS, Kind.DISTURBED, dtype=np.int8)
        self._num_steps = 0
        self._hooks: dict[Kind, dict[int, list[int]]] = {kind: {} for kind in Kind}
        self._num_of_kind = dict.fromkeys(Kind, 0)
        self._outside_ns: dict[Part, int] = {}
        self._training_ns = 0

    def add(self, parts: StepParts, kind: Kind) -> int:
        """One finished step; the row under which its device times belong."""
        row = self._num_steps
        place = row % MOST_STEPS
        self._host_s[place] = parts.phases_ns
        self._kinds[place] = kind
        if self._device_s is not None:
            self._device_s[place] = np.nan
        self._num_steps += 1
        self._num_of_kind[kind] += 1
        self._training_ns += sum(parts.phases_ns)
        sums = self._hooks[kind]
        for slot, spent_ns in parts.hooks_ns.items():
            known = sums.get(slot)
            if known is None:
                sums[slot] = [spent_ns, spent_ns]
            else:
                known[0] += spent_ns
                known[1] = max(known[1], spent_ns)
        self.add_outside(parts)
        return row

    def add_outside(self, parts: StepParts) -> None:
        """What lay outside of steps."""
        for part, spent_ns in parts.outside_ns.items():
            self._outside_ns[part] = self._outside_ns.get(part, 0) + spent_ns

    def set_device(self, row: int, seconds: Seconds) -> None:
        """The device's times of the step that :meth:`add` gave this row."""
        if self._device_s is not None and row >= self._num_steps - MOST_STEPS:
            self._device_s[row % MOST_STEPS] = seconds

    def _judged(self) -> Kind:
        """The kinds up to this one are judged: the best ones that make up at least three steps."""
        for kind in (Kind.STEADY, Kind.EARLY):
            if sum(self._num_of_kind[better] for better in Kind if better <= kind) >= FEWEST_STEPS:
                return kind
        return Kind.EPOCH_START

    def step_times(self) -> StepTimes | None:
        """The steady steps in their order; None if there is none."""
        count = min(self._num_steps, MOST_STEPS)
        order = np.arange(self._num_steps - count, self._num_steps) % MOST_STEPS
        order = order[self._kinds[order] <= self._judged()]
        if self._device_s is not None:
            measured = order[~np.isnan(self._device_s[order]).any(axis=1)]
            if len(measured):
                return StepTimes(self._host_s[measured] / 1e9, self._device_s[measured])
        return StepTimes(self._host_s[order] / 1e9) if len(order) else None

    def hook_times(self, meanings: list[Meaning], own_slots: set[int]) -> tuple[HookTime, ...] | None:
        """Every hook's mean time in the judged steps, the longest first; None without steps."""
        sums, num_steps = self._hook_sums()
        if num_steps == 0:
            return None
        times = [
            HookTime(
                name=str(meanings[slot].owner),
                hook=str(meanings[slot].hook),
                s_per_step=total_ns / 1e9 / num_steps,
                max_s=longest_ns / 1e9,
            )
            for slot, (total_ns, longest_ns) in sums.items()
            if slot not in own_slots
        ]
        return tuple(sorted(times, key=lambda time: -time.s_per_step))

    def own_hooks(self, own_slots: set[int]) -> tuple[float, int]:
        """Seconds spent in PerfWatch's own hooks in the judged steps, and their number."""
        sums, num_steps = self._hook_sums()
        return sum(sums[slot][0] for slot in own_slots if slot in sums) / 1e9, num_steps

    def _hook_sums(self) -> tuple[dict[int, list[int]], int]:
        judged = [kind for kind in Kind if kind <= self._judged()]
        sums: dict[int, list[int]] = {}
        for kind in judged:
            for slot, (total_ns, longest_ns) in self._hooks[kind].items():
                known = sums.setdefault(slot, [0, 0])
                known[0] += total_ns
                known[1] = max(known[1], longest_ns)
        return sums, sum(self._num_of_kind[kind] for kind in judged)

    def wall_s(self) -> dict[str, float]:
        """Seconds of wall clock by what they were spent on; see :class:`~lightning_perfwatch.evidence.Evidence`."""
        parts = (Part.VALIDATION, Part.CHECKPOINT, Part.EPOCH_START, Part.CAPTURE, Part.EDGE)
        outside = {part.value: self._outside_ns.get(part, 0) / 1e9 for part in parts}
        return {"training": self._training_ns / 1e9 + outside.pop(Part.EDGE.value), **outside}


def epoch_starts(starts_ns: Iterable[tuple[int, int]], num_epochs: int) -> tuple[EpochStart, ...]:
    """The newest starts that a :class:`PhaseTimer` saw, in seconds, of ``num_epochs`` in all."""
    starts_ns = list(starts_ns)
    first = num_epochs - len(starts_ns)
    return tuple(
        EpochStart(epoch=first + index, iterator_s=iterator_ns / 1e9, first_wait_s=wait_ns / 1e9)
        for index, (iterator_ns, wait_ns) in enumerate(starts_ns)
    )


_MOST_IMPURITY = 0.05  # a ModelCheckpoint's hook takes a little of every step outside, and that does no harm


def is_pure(parts: StepParts) -> bool:
    """Whether hardly anything but the step lies between its ends: the device's clock can't leave the rest out."""
    outside_ns = sum(spent_ns for part, spent_ns in parts.outside_ns.items() if part is not Part.EDGE)
    return outside_ns <= _MOST_IMPURITY * sum(parts.phases_ns)
