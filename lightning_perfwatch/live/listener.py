"""Stands in for ``trainer.profiler``: tells the timer of phases and the user's own profiler of every action.

Owns the place before the user's profiler and the way back. Times nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning_perfwatch.live.contexts import ForwardedContext
from lightning_perfwatch.live.labels import labelled
from lightning_perfwatch.live.phases import PhaseTimer


class Listener:
    """Announces all actions to ``timer``; the profiler ``inner`` keeps working behind it.

    ``inner`` gets every call, and whatever else is asked of this object. Where it is Lightning's silent default it is
    not called, so that the timer's contexts are all that an action costs.
    """

    profile: Callable[[str], Any]
    start: Callable[[str], None]
    stop: Callable[[str], None]

    def __init__(self, inner: Any, timer: PhaseTimer) -> None:
        self.timer = timer
        self._names: list[str] | None = None
        self._labels = False
        timer.window_observer = self.label
        self._put_before(inner)

    def count_actions(self, names: list[str] | None) -> None:
        """Note the names of all actions in ``names`` from here on; None: note no more."""
        self._names = names
        self._put_before(self.inner)

    def label(self, is_recording: bool) -> None:
        """Label the phases in the trace that is recorded from here on; nothing is added when none is."""
        self._labels = is_recording
        self._put_before(self.inner)

    @property
    def replaces(self) -> bool:
        """Whether Lightning's own contexts are not entered any more."""
        return type(self.inner).__name__ == "PassThroughProfiler"

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, or lost in a copy: there is nothing to ask
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        """A copy of the Trainer that goes elsewhere takes the profiler that is its own."""
        return _itself, (self.inner,)

    def remove_from(self, trainer: Any) -> None:
        """Give ``trainer`` back the profiler it had; other listeners that came later stay."""
        if trainer.profiler is self:
            trainer.profiler = self.inner
            return
        listener = trainer.profiler
        while isinstance(listener, Listener):
            if listener.inner is self:
                listener._put_before(self.inner)
                return
            listener = listener.inner

    def _put_before(self, inner: Any) -> None:
        self.inner = inner
        if self.replaces:
            self.profile, self.start, self.stop = self.timer.profile, self.timer.start, self.timer.stop
        else:
            self.profile, self.start, self.stop = self._profile, self._start, self._stop
        if self._labels:
            self.profile = labelled(self.profile)
        if self._names is not None:
            self.profile = _noting(self._names, self.profile)

    def _profile(self, action_name: str) -> ForwardedContext:
        return ForwardedContext(self.timer.profile(action_name), self.inner.profile(action_name))

    def _start(self, action_name: str) -> None:
        self.inner.start(action_name)
        self.timer.start(action_name)

    def _stop(self, action_name: str) -> None:
        self.timer.stop(action_name)
        self.inner.stop(action_name)


def _noting(names: list[str], profile: Callable[[str], Any]) -> Callable[[str], Any]:
    def noted(action_name: str) -> Any:
        names.append(action_name)
        return profile(action_name)

    return noted


def _itself(profiler: Any) -> Any:
    return profiler
