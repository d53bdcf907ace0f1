from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lightning_perfwatch.counts import Flops
from lightning_perfwatch.live.flop_meter import FlopMeter, UserFlops, module_flops
from lightning_perfwatch.live.flops import StepFlops
from lightning_perfwatch.live.step_count import StepCount

H100, A100, UNKNOWN = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"


class NamedDevice:
    """A device that is not here."""

    def __init__(self, name: str = "cpu", kind: str | None = None) -> None:
        self.name = name
        self.type = kind or ("cpu" if name == "cpu" else "cuda")


def meter(
    user: UserFlops | None = None,
    *,
    device: str = "cpu",
    peak_tflops: float | None = None,
    precision: str = "bf16-mixed",
    counted: StepFlops | None = None,
) -> FlopMeter:
    count = StepCount([], lambda: None)
    count.result = counted
    return FlopMeter(user, peak_tflops, NamedDevice(device), precision, count)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def torchs_settings() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def test_a_counted_batch_stands_for_all_of_its_length() -> None:
    one = meter(device=H100, counted=StepFlops(6e12, "bf16"))

    assert one.add(None, 100, clean=True) == 6e12
    assert one.flops() == Flops(6e12, "counted", "bf16", 989.5e12, "NVIDIA H100 datasheet, H100 SXM")
    assert one.notes() == []


def test_steps_that_cost_the_same_may_be_added_at_once() -> None:
    at_once, one_by_one = (meter(counted=StepFlops(6e12, "bf16")) for _ in range(2))
    for one in (at_once, one_by_one):
        one.add(None, 100, clean=True)
    at_once.add_again(at_once.add(None, 300, clean=True), 300, num_steps=4, clean=True)
    for _ in range(5):
        one_by_one.add(None, 300, clean=True)

    assert at_once.flops() == one_by_one.flops()


def test_what_a_batch_costs_is_settled_until_a_count_comes_and_never_by_a_function() -> None:
    counting, by_function, by_figure = meter(), meter(lambda batch: 1e9), meter(5e12)
    for one in (counting, by_function, by_figure):
        one.add(None, 100, clean=True)
    assert [one.is_settled for one in (counting, by_function, by_figure)] == [True, False, True]

    assert counting.count is not None
    counting.count.result = StepFlops(6e12, "bf16")
    assert not counting.is_settled
    counting.add(None, 100, clean=True)
    assert counting.is_settled


def test_longer_batches_cost_more_in_proportion_to_their_tokens() -> None:
    one = meter(counted=StepFlops(6e12, "bf16"))

    assert [one.add(None, tokens, clean=True) for tokens in (100, 300, 50)] == [6e12, 18e12, 3e12]
    assert one.flops().flops_per_batch == pytest.approx(6e12 * 150 / 100)


def test_steps_before_the_counted_one_weigh_in_with_their_tokens() -> None:
    one = meter()
    assert one.add(None, 300, clean=True) is None
    assert one.count is not None
    one.count.result = StepFlops(6e12, "bf16")
    one.add(None, 100, clean=False)

    assert one.flops().flops_per_batch == 18e12


def test_disturbed_steps_are_left_out_where_there_are_clean_ones() -> None:
    one = meter(lambda batch: batch)
    for batch, clean in ((1e9, False), (2e9, True), (4e9, True)):
        one.add(batch, None, clean=clean)
    assert one.flops().flops_per_batch == 3e9

    other = meter(lambda batch: batch)
    other.add(1e9, None, clean=False)
    assert other.flops().flops_per_batch == 1e9


def test_batches_of_unknown_tokens_are_taken_to_cost_the_same() -> None:
    one = meter(counted=StepFlops(6e12, "bf16"))

    assert [one.add(None, None, clean=True) for _ in range(2)] == [6e12, 6e12]
    assert one.flops().flops_per_batch == 6e12


def test_the_users_figure_wins_and_nothing_is_counted() -> None:
    one = meter(5e12, device=A100, counted=StepFlops(6e12, "fp32"))

    assert one.count is None
    assert one.add(None, 100, clean=True) == 5e12
    assert one.add(None, 700, clean=True) == 5e12
    assert one.flops() == Flops(5e12, "user", "bf16", 312e12, "NVIDIA A100 datasheet")


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "much", None])
def test_a_function_that_gives_no_number_is_warned_about_once(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="lightning_perfwatch")
    one = meter(lambda batch: value)

    assert [one.add(None, 1, clean=True) for _ in range(3)] == [None, None, None]
    assert len(caplog.records) == 1
    assert one.flops().flops_per_batch is None
    assert one.flops().reason == "flops_per_batch gave no number for some batch"


def test_a_setting_wins_over_the_module_and_the_module_over_a_count() -> None:
    class Module:
        flops_per_batch = 7

    class Trainer:
        precision = "32-true"

    device: Any = NamedDevice()
    count = StepCount([], lambda: None)
    ours = FlopMeter.of_run(Trainer(), Module(), device, 5.0, None, count)
    modules = FlopMeter.of_run(Trainer(), Module(), device, None, None, count)
    neither = FlopMeter.of_run(Trainer(), object(), device, None, None, count)

    assert ours.add(None, None, clean=True) == 5
    assert modules.add(None, None, clean=True) == 7
    assert neither.count is count


def test_what_a_module_says_of_itself_is_a_positive_number_or_nothing() -> None:
    class Module:
        def __init__(self, value: Any) -> None:
            self.flops_per_batch = value

    class Raises:
        @property
        def flops_per_batch(self) -> float:
            raise RuntimeError("not yet")

    assert module_flops(Module(3)) == 3.0
    assert [module_flops(Module(value)) for value in (None, 0, -1, True, float("inf"), "1")] == [None] * 6
    assert module_flops(Raises()) is None


@pytest.mark.parametrize(
    ("device", "precision", "matmul", "dtype", "tflops"),
    [
        (A100, "bf16-mixed", "highest", "bf16", 312),
        (A100, "16-mixed", "highest", "fp16", 312),
        (A100, "32-true", "highest", "fp32", 19.5),
        (A100, "32-true", "high", "tf32", 156),
        (A100, "32-true", "medium", "tf32", 156),
        ("Tesla V100-SXM2-16GB", "32-true", "high", "tf32", 15.7),  # it has none and computes in fp32
        (H100, "transformer-engine", "highest", "fp8", 1979),
    ],
)
def test_the_peak_is_that_of_the_precision_in_use(
    device: str, precision: str, matmul: str, dtype: str, tflops: float
) -> None:
    torch.set_float32_matmul_precision(matmul)
    flops = meter(1e12, device=device, precision=precision).flops()

    assert flops.dtype == dtype
    assert flops.peak_flops_per_s == pytest.approx(tflops * 1e12)


def test_what_was_counted_tells_the_precision_better_than_the_trainer() -> None:
    """A module that is in bf16 by itself trains with precision='32-true'."""
    flops = meter(device=A100, precision="32-true", counted=StepFlops(1e12, "bf16")).flops()

    assert (flops.dtype, flops.peak_flops_per_s) == ("bf16", 312e12)


def test_an_unknown_device_gives_no_mfu_and_one_note() -> None:
    one = meter(1e12, device=UNKNOWN)

    assert one.flops().peak_flops_per_s is None
    assert one.notes() == [f"MFU is not known: the dense peak of {UNKNOWN} is not listed; give peak_tflops to have it"]


def test_a_kind_of_number_that_a_known_device_has_no_peak_for_is_named() -> None:
    (note,) = meter(1e12, device="Tesla T4").notes()

    assert note == "MFU is not known: no dense bf16 peak of Tesla T4 is published; give peak_tflops to have it"


def test_the_users_peak_wins() -> None:
    flops = meter(1e12, device=A100, peak_tflops=100).flops()
    assert (flops.peak_flops_per_s, flops.peak_source) == (100e12, "the setting peak_tflops")
    assert meter(1e12, device=UNKNOWN, peak_tflops=100).notes() == []


def test_a_count_that_failed_is_noted_with_its_reason_on_a_gpu() -> None:
    (note,) = meter(device=A100, counted=StepFlops(reason="it is hidden")).notes()
    assert note == "MFU is not known: it is hidden; give flops_per_batch to have it"

    (note,) = meter(device=A100).notes()
    assert note == "MFU is not known: the run ended before a step was counted; give flops_per_batch to have it"


def test_a_run_on_a_cpu_is_not_nagged() -> None:
    one = meter(counted=StepFlops(6e12, "fp32"))
    one.add(None, None, clean=True)

    assert one.notes() == []
    assert one.peak_flops_per_s is None
    assert one.flops().reason == "no peaks of CPUs are listed; give peak_tflops to have it"
