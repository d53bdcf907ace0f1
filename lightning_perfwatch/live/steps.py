"""Keeps what was timed of each step, in bounded memory, and judges which steps are steady.

Knows no clock and no Trainer: durations are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from lightning_perfwatch.live.actions import Meaning, Part
from lightning_perfwatch.live.phases import OUTSIDE, StepParts
from lightning_perfwatch.live.stopwatch import Nanoseconds
from lightning_perfwatch.measurements import PHASES, EpochStart, HookTime, Seconds, StepTimes

MOST_STEPS = 8192
FEWEST_STEPS = 3


class Kind(IntEnum):
    """How well a step stands for the run: the smaller, the better."""

    STEADY = 0
    EARLY = 1
    EPOCH_START = 2
    DISTURBED = 3
    RECORDED = 4


class StepLog:
    """The newest 8192 steps by phase, and sums over all steps."""

    def __init__(self, *, on_device: bool = False) -> None:
        self._host_s = np.zeros((MOST_STEPS, len(PHASES)))
        self._device_s = np.full((MOST_STEPS, len(PHASES)), np.nan) if on_device else None
        self._kinds = np.full(MOST_STEPS, Kind.DISTURBED, dtype=np.int8)
        self._is_pure = np.zeros(MOST_STEPS, dtype=np.bool_)
        self._num_steps = 0
        self._hooks = {kind: _HookSums() for kind in Kind}
        self._num_of_kind = dict.fromkeys(Kind, 0)
        self._outside_ns = np.zeros(len(OUTSIDE), dtype=np.int64)
        self._training_ns = 0

    def add(self, parts: StepParts, kinds: Sequence[Kind]) -> None:
        """Finished steps that follow those before them, at most 8192; their numbers count from 0."""
        first = self._num_steps % MOST_STEPS
        wraps = first + parts.num_steps > MOST_STEPS
        places = (
            (np.arange(first, first + parts.num_steps) % MOST_STEPS) if wraps else slice(first, first + parts.num_steps)
        )
        self._host_s[places] = parts.phases_ns / 1e9
        self._kinds[places] = kinds
        self._is_pure[places] = are_pure(parts)
        if self._device_s is not None:
            self._device_s[places] = np.nan
        self._num_steps += parts.num_steps
        self._training_ns += int(parts.phases_ns.sum())
        present = set(kinds)
        for kind in present:
            of_kind = parts.slots_ns if len(present) == 1 else parts.slots_ns[self._kinds[places] == kind]
            self._num_of_kind[kind] += len(of_kind)
            self._hooks[kind].add(of_kind)
        self.add_outside(parts)

    def add_outside(self, parts: StepParts) -> None:
        """What lay outside of steps."""
        self._outside_ns += parts.outside_ns.sum(axis=0)

    def set_device(self, row: int, seconds: Seconds) -> None:
        """The device's times of the step number ``row``, unless it held more than a step does."""
        place = row % MOST_STEPS
        if self._device_s is not None and row >= self._num_steps - MOST_STEPS and self._is_pure[place]:
            self._device_s[place] = seconds

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
                return StepTimes(self._host_s[measured], self._device_s[measured])
        return StepTimes(self._host_s[order]) if len(order) else None

    def computing_s(self, row: int) -> float | None:
        """What :attr:`StepTimes.computing_s` is for the step number ``row``; None where it is not known any more."""
        if not max(0, self._num_steps - MOST_STEPS) <= row < self._num_steps:
            return None
        return float(StepTimes(self._host_s[[row % MOST_STEPS]]).computing_s[0])

    def newest_step_s(self, num_steps: int) -> Seconds | None:
        """Durations of the newest steps of any kind, in seconds: on the device's clock where it runs on its own.

        At most 8192. Steps that were not measured on that clock are left out; None if none was.
        """
        count = min(num_steps, self._num_steps, MOST_STEPS)
        places = np.arange(self._num_steps - count, self._num_steps) % MOST_STEPS
        by_phase_s = (self._host_s if self._device_s is None else self._device_s)[places]
        step_s = by_phase_s.sum(axis=1)
        step_s = step_s[~np.isnan(step_s)]
        return step_s if len(step_s) else None

    def hook_times(self, meanings: list[Meaning], own_slots: set[int]) -> tuple[HookTime, ...] | None:
        """Every hook's mean time in the judged steps, the longest first; None without steps."""
        sums = self._judged_hooks()
        if sums.num_steps == 0:
            return None
        times = [
            HookTime(
                name=str(meaning.owner),
                hook=str(meaning.hook),
                s_per_step=total_ns / 1e9 / sums.num_steps,
                max_s=longest_ns / 1e9,
            )
            for slot, (meaning, total_ns, longest_ns) in enumerate(
                zip(meanings, sums.total_ns.tolist(), sums.longest_ns.tolist(), strict=False)
            )
            if total_ns and slot not in own_slots and meaning.hook is not None and meaning.part.phase is not None
        ]
        return tuple(sorted(times, key=lambda time: -time.s_per_step))

    def own_hooks(self, meanings: list[Meaning], own_slots: set[int]) -> tuple[dict[str, float], int]:
        """Seconds spent in each of PerfWatch's own hooks in the judged steps, and the number of these."""
        sums = self._judged_hooks()
        spent_s = {str(meanings[slot].hook): float(sums.total_ns[slot]) / 1e9
                   for slot in sorted(own_slots) if slot < len(sums.total_ns) and sums.total_ns[slot]}  # fmt: skip
        return spent_s, sums.num_steps

    def recording_s(self, meanings: list[Meaning]) -> float | None:
        """How much longer than judged steps the recorded ones took in all; None without either."""
        recorded, judged = self._hooks[Kind.RECORDED], self._judged_hooks()
        if recorded.num_steps == 0 or judged.num_steps == 0:
            return None
        return (recorded.step_ns(meanings) - judged.step_ns(meanings)) / 1e9 * recorded.num_steps

    def _judged_hooks(self) -> _HookSums:
        sums = _HookSums()
        for kind in Kind:
            if kind <= self._judged():
                sums.join(self._hooks[kind])
        return sums

    def wall_s(self) -> dict[str, float]:
        """Seconds of wall clock by what they were spent on; see :class:`~lightning_perfwatch.evidence.Evidence`."""
        outside_s = dict(zip(OUTSIDE, (self._outside_ns / 1e9).tolist(), strict=True))
        parts = (Part.VALIDATION, Part.CHECKPOINT, Part.EPOCH_START, Part.CAPTURE)
        return {
            "training": self._training_ns / 1e9 + outside_s[Part.EDGE],
            **{part.value: outside_s[part] for part in parts},
        }


class _HookSums:
    """Nanoseconds by slot, added up over steps, and the longest of them."""

    def __init__(self) -> None:
        self.num_steps = 0
        self.total_ns = np.zeros(0, dtype=np.int64)
        self.longest_ns = np.zeros(0, dtype=np.int64)

    def add(self, slots_ns: Nanoseconds) -> None:
        """Some steps, shape (steps, slots); there is at least one."""
        self._merge(len(slots_ns), slots_ns.sum(axis=0), slots_ns.max(axis=0))

    def join(self, other: _HookSums) -> None:
        """The steps of ``other`` too."""
        self._merge(other.num_steps, other.total_ns, other.longest_ns)

    def step_ns(self, meanings: list[Meaning]) -> float:
        """Mean duration of a step."""
        in_step = [meaning.part.phase is not None for meaning in meanings[: len(self.total_ns)]]
        return float(self.total_ns[in_step].sum()) / self.num_steps

    def _merge(self, num_steps: int, total_ns: Nanoseconds, longest_ns: Nanoseconds) -> None:
        if len(self.total_ns) < len(total_ns):  # slots come up as actions are first announced
            grown = np.zeros((2, len(total_ns)), dtype=np.int64)
            grown[0, : len(self.total_ns)], grown[1, : len(self.total_ns)] = self.total_ns, self.longest_ns
            self.total_ns, self.longest_ns = grown
        self.num_steps += num_steps
        known = slice(len(total_ns))
        self.total_ns[known] += total_ns
        np.maximum(self.longest_ns[known], longest_ns, out=self.longest_ns[known])


def epoch_starts(starts_ns: Iterable[tuple[int, int]], num_epochs: int) -> tuple[EpochStart, ...]:
    """The newest starts that a :class:`PhaseTimer` saw, in seconds, of ``num_epochs`` in all."""
    starts_ns = list(starts_ns)
    first = num_epochs - len(starts_ns)
    return tuple(
        EpochStart(epoch=first + index, iterator_s=iterator_ns / 1e9, first_wait_s=wait_ns / 1e9)
        for index, (iterator_ns, wait_ns) in enumerate(starts_ns)
    )


_MOST_IMPURITY = 0.05  # a ModelCheckpoint's hook takes a little of every step outside, and that does no harm


def are_pure(parts: StepParts) -> npt.NDArray[np.bool_]:
    """Whether hardly anything but the step lies between its ends: the device's clock can't leave the rest out."""
    outside_ns = parts.outside_ns.sum(axis=1) - parts.outside_ns[:, OUTSIDE.index(Part.EDGE)]
    return np.asarray(outside_ns <= _MOST_IMPURITY * parts.phases_ns.sum(axis=1))
