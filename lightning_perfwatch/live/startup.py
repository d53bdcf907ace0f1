"""What goes by before the first training step: the fit's setup and the sanity check.

Owns this stretch of the wall clock. Knows no Trainer.
"""

from __future__ import annotations

from time import perf_counter


class Startup:
    """Times the hooks from the setup of a fit to its first step, in seconds of wall clock."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._check_since_s: float | None = None
        self._check_s = 0.0

    def begin(self) -> None:
        """The setup begins."""
        self._begun_s, self._check_since_s, self._check_s = perf_counter(), None, 0.0

    def check_begins(self) -> None:
        """The sanity check begins."""
        self._check_since_s = perf_counter()

    def check_ends(self) -> None:
        """The sanity check is over."""
        if self._check_since_s is not None:
            self._check_s += perf_counter() - self._check_since_s
            self._check_since_s = None

    def end(self) -> dict[str, float]:
        """Training begins now: the seconds of ``setup`` and ``sanity_check``; nothing where no setup was seen."""
        begun_s, self._begun_s = self._begun_s, None
        if begun_s is None:
            return {}
        return {"setup": perf_counter() - begun_s - self._check_s, "sanity_check": self._check_s}
