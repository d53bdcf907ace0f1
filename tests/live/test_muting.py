"""Which hooks of the callback Lightning does not call while a fit is watched, and that they come back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback

from lightning_perfwatch import PerfWatch
from lightning_perfwatch.live.muting import MUTED, STEP_START, Muting, unmuted
from tests.reports.harness import Module, fit, loader, perfwatch, trainer


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Watched(PerfWatch):
    """Does something of its own in two of the hooks."""

    calls = 0
    starts = 0

    def on_train_batch_start(self, *arguments: Any) -> None:
        super().on_train_batch_start(*arguments)
        self.starts += 1

    def on_before_backward(self, *arguments: Any) -> None:
        super().on_before_backward(*arguments)
        self.calls += 1


class Looking(Callback):
    """Looks at another callback within a step."""

    def __init__(self, at: Any) -> None:
        self.at = at
        self.seen: list[Any] = []

    def on_train_batch_start(self, *arguments: Any) -> None:
        self.seen.append(self.look())

    def look(self) -> Any:
        """What is missing."""
        return {hook for hook in MUTED if not callable(getattr(self.at, hook))}


class Copying(Looking):
    """Copies another callback within a step."""

    def look(self) -> Any:
        """The copy."""
        return copy.deepcopy(self.at)


class Group(Callback):
    """Passes a hook on to callbacks that the Trainer does not know."""

    def __init__(self, *members: Callback) -> None:
        self.members = members

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_") and name not in ("setup", "teardown"):
            return super().__getattribute__(name)

        def pass_on(*arguments: Any, **named: Any) -> None:
            for member in self.members:
                getattr(member, name)(*arguments, **named)

        return pass_on


def names_heard(watch: PerfWatch, hook: str) -> list[str]:
    """The actions of ``hook`` that are announced in a fit with ``watch``."""
    from lightning.pytorch.profilers import SimpleProfiler

    profiler = SimpleProfiler()
    fit(watch, train=loader(6), profiler=profiler)
    return [name for name in profiler.recorded_durations if name.endswith(hook)]


def test_hooks_with_nothing_to_do_are_not_called_and_come_back_after_the_fit() -> None:
    watch = perfwatch()
    looking = Looking(watch)

    fit(watch, train=loader(6), val=loader(2), others=[looking])

    assert looking.seen[3] == MUTED - {STEP_START}  # a step that is recorded
    assert looking.seen[5] == MUTED
    assert all(callable(getattr(watch, hook)) for hook in MUTED)
    assert not MUTED & set(vars(watch))
    assert watch.report is not None
    assert watch.report.counted is not None
    assert watch.report.counted.num_batches == 6


def test_no_time_goes_into_a_muted_hook() -> None:
    assert "[Callback]PerfWatch.on_before_backward" not in names_heard(perfwatch(), "on_before_backward")
    assert "[Callback]Watched.on_before_backward" in names_heard(Watched(quiet=True), "on_before_backward")


def test_a_hook_that_a_subclass_overrides_is_called_in_every_step() -> None:
    watch = Watched(quiet=True)

    fit(watch, train=loader(6))

    assert watch.calls == watch.starts == 6


def test_a_hook_that_somebody_has_put_on_the_callback_is_called_and_stays() -> None:
    watch: Any = perfwatch()
    calls = []
    watch.on_after_backward = lambda *arguments: calls.append(arguments)

    fit(watch, train=loader(6))

    assert len(calls) == 6
    assert callable(vars(watch)["on_after_backward"])


def test_the_hooks_come_back_after_a_fit_that_fails() -> None:
    class Failing(Module):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 3:
                raise RuntimeError("the user's own")
            return super().training_step(batch, batch_idx)

    watch = perfwatch()

    with pytest.raises(RuntimeError, match="the user's own"):
        fit(watch, Failing())

    assert not MUTED & set(vars(watch))


def test_a_copy_made_within_a_step_has_all_its_hooks() -> None:
    copying = Copying(perfwatch())

    fit(copying.at, train=loader(6), others=[copying])

    assert len(copying.seen) == 6
    for one in copying.seen:
        assert not MUTED & set(vars(one))
        one.on_before_backward(None, None, None)


def test_a_callback_that_others_pass_the_hooks_on_to_keeps_them() -> None:
    watch = perfwatch()
    used = trainer(Group(watch))

    used.fit(Module(), loader(6))

    assert used.global_step == 6
    assert watch.report is not None
    assert watch.report.counted is not None
    assert watch.report.counted.num_batches == 6


def test_only_what_was_muted_is_taken_out() -> None:
    watch: Any = perfwatch()
    muting = Muting(trainer(watch), watch)
    watch.on_before_zero_grad = print

    assert "on_after_backward" not in unmuted(vars(watch))
    assert unmuted(vars(watch))["on_before_zero_grad"] is print
    muting.end()
    muting.end()
    assert vars(watch)["on_before_zero_grad"] is print
    assert set(vars(watch)) & MUTED == {"on_before_zero_grad"}
