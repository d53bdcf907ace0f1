from __future__ import annotations

import pytest

from lightning_perfwatch.live import peaks
from lightning_perfwatch.live.peaks import find_peak, is_listed


@pytest.mark.parametrize(
    ("name", "dtype", "tflops_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 80GB HBM3", "fp8", 1979),
        ("NVIDIA H100 80GB HBM3", "tf32", 494.5),
        ("NVIDIA H100 PCIe", "bf16", 756.5),
        ("NVIDIA H100 NVL", "bf16", 835.5),
        ("NVIDIA H200", "bf16", 989.5),
        ("NVIDIA H200 NVL", "bf16", 835.5),
        ("NVIDIA GH200 480GB", "bf16", 989.5),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA GB200", "bf16", 2500),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA A100-SXM4-40GB", "tf32", 156),
        ("A100-SXM4-40GB", "bf16", 312),
        ("NVIDIA A100 80GB PCIe", "fp32", 19.5),
        ("NVIDIA A10", "bf16", 125),
        ("NVIDIA A10G", "bf16", 70),
        ("NVIDIA A40", "bf16", 149.7),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA L40", "bf16", 181.05),
        ("NVIDIA L40S", "bf16", 362.05),
        ("Tesla T4", "fp16", 65),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-16GB", "fp16", 112),
        ("NVIDIA GeForce RTX 3090", "bf16", 71.2),
        ("NVIDIA GeForce RTX 4090", "fp16", 165.2),
        ("NVIDIA GeForce RTX 5090", "bf16", 209.5),
        ("NVIDIA RTX 6000 Ada Generation", "bf16", 364.2),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "bf16", 503.8),
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("AMD Instinct MI250X", "bf16", 191.5),
        ("AMD Instinct MI355X", "fp8", 5033.2),
        ("Intel(R) Data Center GPU Max 1100", "bf16", 352),
    ],
)
def test_dense_peaks_by_the_names_that_drivers_give(name: str, dtype: str, tflops_per_s: float) -> None:
    peak = find_peak(name, dtype)

    assert peak is not None
    assert peak.flops_per_s == pytest.approx(tflops_per_s * 1e12)
    assert peak.source
    assert is_listed(name)


@pytest.mark.parametrize(
    "name",
    [
        "Foo",
        "",
        "cpu",
        "NVIDIA H100",
        "NVIDIA A100",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA L400",
        "NVIDIA GB2000",
        "Intel(R) Data Center GPU Max 1550",
    ],
)
def test_a_name_that_is_not_listed_has_no_peak(name: str) -> None:
    assert not is_listed(name)
    assert all(find_peak(name, dtype) is None for dtype in peaks.DTYPES)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("Tesla T4", "bf16"), ("Tesla V100-SXM2-16GB", "tf32"), ("NVIDIA A100-SXM4-80GB", "fp8"), ("NVIDIA H200", "fp64")],
)
def test_numbers_that_a_device_has_no_units_for_have_no_peak(name: str, dtype: str) -> None:
    assert is_listed(name)
    assert find_peak(name, dtype) is None


def test_the_figures_are_dense_and_consistent() -> None:
    """A sparse figure among dense ones would be twice what its neighbours say."""
    for name, rates in peaks._BY_NAME.items():
        assert rates.source, name
        if rates.tf32 is not None and rates.bf16 is not None:
            assert rates.bf16 / rates.tf32 == pytest.approx(2.0, rel=0.03), name
        if rates.fp8 is not None and rates.bf16 is not None and not name.startswith("GAUDI"):
            assert rates.fp8 / rates.bf16 == pytest.approx(2.0, rel=0.03), name
