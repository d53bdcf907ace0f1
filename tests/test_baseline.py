from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.baseline import MOST_RUNS, essence, read_baseline, with_run, write_baseline
from lightning_perfwatch.comparison import Limits, compare, judge
from lightning_perfwatch.report import Report, to_json
from tests.comparison.factories import counted, noisy_durations, run, run_of
from tests.reporters.factories import HOSTILE, finding, hostile_report, op_total


def runs(num: int) -> list[Report]:
    return [run(*(1.0 + 0.001 * number + 0.01 * i for i in range(8))) for number in range(num)]


def test_what_is_written_is_read_again_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "baseline.json"
    kept = [essence(one) for one in runs(2)]

    write_baseline(path, kept)

    assert read_baseline(path) == tuple(kept)
    assert list(path.parent.iterdir()) == [path]


def test_a_run_is_judged_by_the_essence_as_by_the_whole_run() -> None:
    whole = runs(4)
    new = run(*(1.2 + 0.01 * i for i in range(8)))

    assert judge(new, [essence(one) for one in whole], Limits()) == judge(new, whole, Limits())
    assert compare(whole[0], essence(whole[0])).is_same_run


def test_a_run_of_which_no_interval_was_clean_keeps_its_rate() -> None:
    short = run_of(counted([5.0, 1.0, 1.0, 1.1, 1.0, 1.0, 1.0], clean=False))

    assert short.counted is not None
    kept = essence(short).counted
    assert kept is not None
    assert [one.duration_s for one in kept.intervals] == [1.0, 1.0, 1.1, 1.0, 1.0, 1.0]
    assert essence(essence(short)) == essence(short)


def test_a_baseline_of_long_runs_stays_small(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    long = [run(*noisy_durations(chance, 4096), top_ops=(op_total(),) * 10) for _ in range(2)]
    path = tmp_path / "b.json"

    write_baseline(path, [essence(one) for one in long])

    assert len(to_json(long[0])) > 500_000
    assert path.stat().st_size < 60_000


def test_the_newest_ten_runs_are_kept() -> None:
    kept: tuple[Report, ...] = ()
    every = runs(13)
    for one in every:
        kept = with_run(kept, one, kept, replaces=False)

    assert kept == tuple(essence(one) for one in every[-MOST_RUNS:])


def test_a_new_speed_replaces_the_runs_before_but_not_those_of_other_machines() -> None:
    first, second, third = (essence(one) for one in runs(3))

    assert with_run((first, second), third, (second,), replaces=True) == (first, third)


def test_names_of_any_kind_survive(tmp_path: Path) -> None:
    report = replace(hostile_report(), counted=run().counted, findings=(finding(rule=HOSTILE),))
    path = tmp_path / "b.json"

    write_baseline(path, [essence(report)])

    assert read_baseline(path)[0].findings[0].rule == HOSTILE.replace("\ud800", "?")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no JSON, or not all of it"),
        (b"[]", "schema version None"),
        (b"\xff\x00", "no baseline"),
        (b'{"schema_version": 2, "runs": []}', "schema version 2 and 1 is needed"),
        (b'{"schema_version": 1}', "missing required field `runs`"),
        (b'{"schema_version": 1, "runs": [{"schema_version": 9}]}', "schema version 9 and 1 is needed"),
        (b'{"schema_version": 1, "runs": [{"schema_version": 1, "run": 3}]}', "no PerfWatch report"),
        (b'{"schema_version": 1, "runs": [NaN]}', "it is no JSON, or not all of it"),
    ],
)
def test_what_is_no_baseline_is_refused_by_name(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"b\.json is no baseline of perfwatch check") as error:
        read_baseline(path)
    assert said in str(error.value)


def test_a_report_is_no_baseline(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(to_json(run()))

    with pytest.raises(ValueError, match="is no baseline"):
        read_baseline(path)


def test_a_number_that_is_none_is_not_measured(tmp_path: Path) -> None:
    """JSON knows no NaN: what was stored as one comes back as not known."""
    path = tmp_path / "b.json"
    broken: dict[str, Any] = {"tokens_per_s": float("nan")}

    write_baseline(path, [run(throughput=replace(run().throughput, **broken))])

    assert json.loads(path.read_text())["runs"][0]["throughput"]["tokens_per_s"] is None
    assert read_baseline(path)[0].throughput.tokens_per_s is None
