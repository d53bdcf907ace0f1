from __future__ import annotations

import pytest

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity
from lightning_perfwatch.rules.worker_restart import WorkerRestart
from tests.rules.factories import epoch_starts, evidence, loader


def check(found: Evidence) -> list[Finding]:
    return list(WorkerRestart().check(found))


def ill(**changes: object) -> Evidence:
    settings: dict[str, object] = {
        "loader": loader(num_workers=4),
        "epoch_starts": epoch_starts(0.5, 0.5, 0.5),
        "wall_s": {"training": 6.0, "epoch_start": 1.5, "capture": 30.0},
    }
    return evidence(**{**settings, **changes})


def test_silent_with_persistent_workers_or_none() -> None:
    assert check(ill(loader=loader(num_workers=4, persistent_workers=True))) == []
    assert check(ill(loader=loader(num_workers=0))) == []


def test_silent_in_a_single_epoch_and_in_long_ones() -> None:
    assert check(ill(epoch_starts=epoch_starts(5.0))) == []
    assert check(ill(wall_s={"training": 100.0, "epoch_start": 1.5})) == []


def test_skipped_when_starts_were_not_measured() -> None:
    assert WorkerRestart().skip_reason(ill(epoch_starts=None)) == "the start of epochs was not measured"


def test_says_what_each_epoch_loses_and_how_to_keep_the_workers() -> None:
    (finding,) = check(ill())
    assert finding.share == pytest.approx(1.0 / 7.5, abs=0.001)
    assert finding.share_of == "run"
    assert finding.severity is Severity.WARNING
    assert "persistent_workers=True" in finding.advice
    assert "4 workers anew in each epoch takes 0.50 s an epoch, 13 % of the run" in finding.summary


@pytest.mark.parametrize(("training_s", "fires"), [(18.4, True), (18.6, False)])
def test_fires_from_five_percent_on(training_s: float, fires: bool) -> None:
    assert bool(check(ill(wall_s={"training": training_s, "epoch_start": 1.5}))) is fires


def test_the_first_epoch_is_left_out_also_where_only_the_newest_are_known() -> None:
    newest = epoch_starts(0.0, 0.5, 0.5)[1:]
    (finding,) = check(ill(epoch_starts=newest))
    assert finding.evidence["epoch_start_s"] == pytest.approx(0.5, abs=0.001)
