from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lightning_perfwatch.comparison.setup import Difference, differences
from lightning_perfwatch.measurements import LoaderInfo
from lightning_perfwatch.report import Report
from lightning_perfwatch.settings import DropoutLayer, Settings
from tests.comparison.factories import counted, run, run_of
from tests.reporters.factories import op_total, run_info


def names(before: Report, after: Report) -> list[str]:
    return [one.setting for one in differences(before, after)]


def with_run(**changes: Any) -> Report:
    return run(run=run_info(**{"torch_version": "2.14", **changes}))


def test_runs_that_were_set_up_alike_differ_in_nothing() -> None:
    assert differences(run(), run(1.0, 2.0, 3.0)) == ()


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"device_type": "cuda"}, "device type"),
        ({"device_name": "Another CPU"}, "device"),
        ({"world_size": 2}, "ranks"),
        ({"model": "Classifier"}, "model"),
        ({"num_parameters": 7}, "parameters"),
        ({"num_cpus": 64}, "CPUs"),
    ],
)
def test_other_work_or_another_machine_is_an_obstacle(changes: dict[str, Any], setting: str) -> None:
    (found,) = differences(with_run(), with_run(**changes))

    assert (found.setting, found.is_obstacle) == (setting, True)
    assert found.doubt is not None


def test_the_cpus_beside_a_gpu_are_no_obstacle() -> None:
    (found,) = differences(with_run(device_type="cuda"), with_run(device_type="cuda", num_cpus=64))

    assert (found.is_obstacle, found.doubt is not None) == (False, True)


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"torch_version": "2.15"}, "torch"),
        ({"precision": "bf16-mixed"}, "precision"),
        ({"accumulate_grad_batches": 4}, "accumulation"),
    ],
)
def test_what_has_a_speed_of_its_own_raises_a_doubt(changes: dict[str, Any], setting: str) -> None:
    (found,) = differences(with_run(precision="32-true"), with_run(**changes))

    assert (found.setting, found.is_obstacle, found.doubt is not None) == (setting, False, True)


def test_what_was_changed_to_be_faster_is_listed_without_a_doubt() -> None:
    loader = LoaderInfo("DataLoader", num_workers=4, batch_size=16, persistent_workers=True)
    layers = (DropoutLayer("a", 0.1), DropoutLayer("b", 0.1))
    before = run(settings=Settings(dropouts=layers, num_dropouts=2, sdp_backends=("flash", "math")))
    after = run(loader=loader, settings=Settings(sdp_backends=("flash", "math")))

    assert differences(before, after) == (
        Difference("num_workers", 0, 4),
        Difference("persistent_workers", None, True),
        Difference("dropout", "0.1 in 2 layers", "none"),
    )


def test_doubts_stand_first() -> None:
    after = replace(with_run(torch_version="2.15", model="Other", compiled=True), loader=LoaderInfo("Other"))

    assert names(with_run(), after)[:2] == ["model", "torch"]


def test_a_section_that_one_report_does_not_have_tells_of_no_difference() -> None:
    assert differences(run(loader=None, settings=None), run()) == ()


def test_a_setting_that_one_run_does_not_tell_is_no_obstacle() -> None:
    (found,) = differences(with_run(num_parameters=None), with_run())

    assert (found.setting, found.is_obstacle, found.doubt) == ("parameters", False, None)


def test_batches_are_compared_by_what_was_counted_in_them() -> None:
    padded = run_of(counted([1.0] * 8, tokens=20_200))  # 1.4 % fewer
    longer = run_of(counted([1.0] * 8, tokens=40_960))

    assert names(run(*[1.0] * 8), padded) == []
    assert names(run(*[1.0] * 8), longer) == ["tokens per sample"]


def test_samples_are_counted_where_the_loader_does_not_tell_its_batch_size() -> None:
    small, large = (run_of(counted([1.0] * 8, samples=n, tokens=128 * n), loader=None) for n in (160, 640))

    assert differences(small, large) == (
        Difference("samples per batch", 16.0, 64.0, "steps are not of the same size", False),
    )


def test_a_trace_alone_beside_a_run_is_an_obstacle() -> None:
    trace = Report(top_ops=(op_total(),), source="a.json")

    assert differences(run(), trace)[0] == Difference(
        "kind of report", "a run", "a trace alone", "a trace has no run around it", True
    )
    assert differences(trace, replace(trace, source="b.json")) == ()
