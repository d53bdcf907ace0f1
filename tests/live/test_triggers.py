from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch import PerfWatchConfig, Triggers


def test_by_default_requests_are_taken_drift_is_watched_and_no_signal_is_touched() -> None:
    assert PerfWatchConfig().triggers == Triggers()
    assert (Triggers().on_request, Triggers().signal) == (True, None)


def test_they_are_read_from_a_mapping() -> None:
    config = PerfWatchConfig.read({"triggers": {"signal": "SIGUSR2", "drift_factor": None, "max_drifts": 1}})
    assert config.triggers == Triggers(signal="SIGUSR2", drift_factor=None, max_drifts=1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"on_request": 1}, "on_request must be true or false, got 1"),
        ({"signal": "USR2"}, "must be the name of a signal such as 'SIGUSR2' or None, got 'USR2'"),
        ({"signal": 12}, "must be the name of a signal"),
        ({"signal": "SIGKILL"}, "can't be 'SIGKILL'"),
        ({"signal": "SIGTERM"}, "can't be 'SIGTERM'"),
        ({"drift_factor": 1.0}, "drift_factor must be a number from 1.05 on or None for no window on drift, got 1.0"),
        ({"drift_factor": float("nan")}, "drift_factor must be"),
        ({"drift_factor": True}, "drift_factor must be"),
        ({"drift_s": 0}, "drift_s must be a number from 0.1 on, got 0"),
        ({"drift_s": None}, "drift_s must be"),
        ({"max_drifts": -1}, "max_drifts must be a whole number of windows from 0 on, got -1"),
        ({"max_drifts": 1.5}, "max_drifts must be"),
    ],
)
def test_what_makes_no_sense_is_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Triggers(**settings)


def test_a_wrong_key_is_named() -> None:
    with pytest.raises(ValueError, match="'drift_faktor': did you mean 'drift_factor'"):
        PerfWatchConfig.read({"triggers": {"drift_faktor": 2}})
