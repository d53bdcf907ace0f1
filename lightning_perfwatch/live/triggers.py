"""What opens a window beside the schedule: a request, a signal, or a step that takes longer than it used to.

Plain validated data; imports nothing of torch.
"""

from __future__ import annotations

import signal as signals
from dataclasses import dataclass

_NOT_TO_BE_CAUGHT = ("SIGKILL", "SIGSTOP")
_NOT_TO_BE_TAKEN = ("SIGINT", "SIGTERM", "SIGCHLD", "SIGSEGV", "SIGFPE", "SIGILL", "SIGBUS", "SIGABRT")


@dataclass(frozen=True)
class Triggers:
    """When a window opens that the schedule does not have; it is as long as the schedule's own.

    A request or a signal gets its window whatever that costs, since somebody asked for it. One for drift has to be
    affordable within ``max_overhead_share``.

    Args:
        on_request: look for requests of ``perfwatch trigger RUN_DIR``, once a second.
        signal: the name of a signal that asks for a window, such as ``"SIGUSR2"``; None for none. It is listened to
            from the first training step to the last. Before and after, it does what it did before: SIGUSR1 and
            SIGUSR2 end a process that has no other use for them.
        drift_factor: a step that takes this many times its steady state opens a window; None for never. The steady
            state is that of the fit's first minute or so; a step that takes longer because its batch has more tokens
            (or samples) does not count.
        drift_s: for how many seconds of training it has to take that long.
        max_drifts: how many windows one fit may open for drift. After each the steady state is learnt anew.

    Raises:
        ValueError: a field has the wrong type or lies outside of what makes sense.
    """

    on_request: bool = True
    signal: str | None = None
    drift_factor: float | None = 1.5
    drift_s: float = 10.0
    max_drifts: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.on_request, bool):
            raise ValueError(f"Triggers.on_request must be true or false, got {self.on_request!r}.")
        _check_signal(self.signal)
        if self.drift_factor is not None:
            _check_number("drift_factor", self.drift_factor, 1.05, "or None for no window on drift")
        _check_number("drift_s", self.drift_s, 0.1)
        most: object = self.max_drifts
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise ValueError(f"Triggers.max_drifts must be a whole number of windows from 0 on, got {most!r}.")


def _check_number(name: str, value: object, least: float, remedy: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
        raise ValueError(
            f"Triggers.{name} must be a number from {least} on{' ' * bool(remedy)}{remedy}, got {value!r}."
        )


def _check_signal(name: object) -> None:
    if name is None:
        return
    if not isinstance(name, str) or name not in signals.Signals.__members__:
        raise ValueError(f"Triggers.signal must be the name of a signal such as 'SIGUSR2' or None, got {name!r}.")
    if name in _NOT_TO_BE_CAUGHT or name in _NOT_TO_BE_TAKEN:
        raise ValueError(f"Triggers.signal can't be {name!r}, which has another use: take 'SIGUSR2'.")
