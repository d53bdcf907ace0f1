from dataclasses import replace

from lightning_perfwatch.reporters.trace_facts import device_facts, host_facts
from lightning_perfwatch.trace import DeviceStep, HostStep
from tests.reporters.factories import HOSTILE, device

STEP = HostStep(1, 0.0, 0.1, data_wait_s=0.04, operators_s=0.03, calls_s=0.0, python_s=0.03, other_threads_s=0.05)
ON_DEVICE = DeviceStep(0, 1, 0.0, 0.2, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1, None, None, None, None, None)


def said(device_index: int = 0, **changes: object) -> dict[str, str]:
    facts = device_facts([device(index=device_index, **changes)], [ON_DEVICE])
    return {fact.name: fact.value for fact in facts}


def test_a_trace_without_steps_says_nothing_of_the_host() -> None:
    assert list(host_facts([])) == []
    assert list(host_facts([replace(STEP, dur_s=0.0)])) == []


def test_the_host_is_told_by_its_mean_step() -> None:
    (fact,) = host_facts([STEP, replace(STEP, dur_s=0.3, data_wait_s=0.24)])
    assert fact.value == "200 ms per step: data wait 70 %, operators 15 %, Python between them 15 %"


def test_a_part_that_was_not_recorded_is_left_out() -> None:
    (fact,) = host_facts([replace(STEP, data_wait_s=None)])
    assert "data wait" not in fact.value


def test_causes_of_idle_time_come_largest_first() -> None:
    facts = said(
        idle_share=0.5,
        data_idle_share=0.1,
        sync_idle_share=0.0,
        launch_idle_share=0.3,
        stall_idle_share=0.0005,
        other_idle_share=0.099,
    )
    assert facts["device 0 idle"] == "50 %: host launches too slowly 30 %, waiting for data 10 %, unknown 9.9 %"


def test_without_causes_there_is_no_line_of_them() -> None:
    assert list(said()) == ["device 0"]


def test_the_devices_own_step_is_told_where_it_is_known() -> None:
    assert "200 ms per step" in said()["device 0"]
    assert "per step" not in said(1, kernels_per_step=None)["device 1"]


def test_a_device_name_is_cleaned() -> None:
    assert "\x1b" not in said(name=HOSTILE)["device 0"]
