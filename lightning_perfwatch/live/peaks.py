"""Dense peak rates of devices by their exact name, each with the vendor's document that states it.

Owns figures only: knows no run and no device but by name. A name that is not listed has no peak, never a guess.
"""

from __future__ import annotations

from typing import NamedTuple


class Peak(NamedTuple):
    """A device's peak for one kind of number, in FLOP/s, and the document that states it."""

    flops_per_s: float
    source: str


class _Rates(NamedTuple):
    """Dense TFLOP/s of matrix products by the type of their factors; None where the device has no such units.

    Documents that state figures "with sparsity" only are halved. ``fp16`` and ``fp8`` are the rates with sums in
    fp32, which is how torch multiplies; GeForce cards reach twice as much with sums in fp16 only.
    """

    source: str
    bf16: float | None
    fp16: float | None
    tf32: float | None
    fp32: float | None
    fp8: float | None = None


DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")
"""The kinds of numbers that the table knows."""


def find_peak(device_name: str, dtype: str) -> Peak | None:
    """The dense peak of the device that its driver calls ``device_name``; None where it is not known.

    Names have to match as a whole, except that drivers before 2021 left out NVIDIA's own name: slices of a device
    (MIG), laptop versions and cards that merely begin alike have other peaks.
    """
    rates = _BY_NAME.get(device_name.strip().removeprefix("NVIDIA "))
    tflops_per_s = None if rates is None or dtype not in DTYPES else getattr(rates, dtype)
    return None if rates is None or tflops_per_s is None else Peak(tflops_per_s * 1e12, rates.source)


def is_listed(device_name: str) -> bool:
    """Whether there is a peak of this device for any kind of number."""
    return device_name.strip().removeprefix("NVIDIA ") in _BY_NAME


# NVIDIA, data centre. Blackwell: per GPU; the documents give eight (HGX) or two (GB200 superchip) together.
_GB200 = _Rates("NVIDIA GB200 NVL72 datasheet, half of the superchip's sparse figures", 2500, 2500, 1250, 80, 5000)
_GB300 = _Rates("NVIDIA GB300 NVL72 datasheet, 1/72 of the rack's sparse figures", 2500, 2500, 1250, 80, 5000)
_B200 = _Rates("NVIDIA HGX B200 datasheet, 1/8 of the board's sparse figures", 2250, 2250, 1125, 75, 4500)
_B300 = _Rates("NVIDIA HGX B300 datasheet, 1/8 of the board's sparse figures", 2250, 2250, 1125, 75, 4500)
_H200_SXM = _Rates("NVIDIA H200 datasheet, H200 SXM", 989.5, 989.5, 494.5, 67, 1979)
_H200_NVL = _Rates("NVIDIA H200 datasheet, H200 NVL", 835.5, 835.5, 417.5, 60, 1670.5)
_GH200 = _Rates("NVIDIA GH200 Grace Hopper Superchip datasheet", 989.5, 989.5, 494.5, 67, 1979)
_H100_SXM = _Rates("NVIDIA H100 datasheet, H100 SXM", 989.5, 989.5, 494.5, 67, 1979)
_H100_NVL = _Rates("NVIDIA H100 datasheet, H100 NVL", 835.5, 835.5, 417.5, 60, 1670.5)
_H100_PCIE = _Rates("NVIDIA H100 PCIe datasheet", 756.5, 756.5, 378, 51, 1513)
_A100 = _Rates("NVIDIA A100 datasheet", 312, 312, 156, 19.5)
_A30 = _Rates("NVIDIA A30 datasheet", 165, 165, 82, 10.3)
_A40 = _Rates("NVIDIA A40 datasheet", 149.7, 149.7, 74.8, 37.4)
_A10 = _Rates("NVIDIA A10 datasheet", 125, 125, 62.5, 31.2)
_A10G = _Rates("NVIDIA A10G datasheet", 70, 70, 35, 31.5)
_L4 = _Rates("NVIDIA L4 datasheet", 121, 121, 60, 30.3, 242.5)
_L40 = _Rates("NVIDIA L40 datasheet", 181.05, 181.05, 90.5, 90.5, 362)
_L40S = _Rates("NVIDIA L40S datasheet", 362.05, 362.05, 183, 91.6, 733)
_T4 = _Rates("NVIDIA T4 datasheet", None, 65, None, 8.1)
_V100_SXM = _Rates("NVIDIA V100 datasheet, V100 for NVLink", None, 125, None, 15.7)
_V100_PCIE = _Rates("NVIDIA V100 datasheet, V100 for PCIe", None, 112, None, 14)
_V100S = _Rates("NVIDIA V100 datasheet, V100S for PCIe", None, 130, None, 16.4)

# NVIDIA, workstations: their tensor cores add up in fp32 at the full rate.
_PRO_BLACKWELL = "NVIDIA RTX Blackwell PRO GPU architecture whitepaper"
_ADA_PRO = "NVIDIA Ada GPU architecture whitepaper for professionals"
_WORKSTATION = {
    "RTX PRO 6000 Blackwell Workstation Edition": _Rates(_PRO_BLACKWELL, 503.8, 503.8, 251.9, 126, 1007.6),
    "RTX PRO 6000 Blackwell Max-Q Workstation Edition": _Rates(_PRO_BLACKWELL, 438.9, 438.9, 219.5, 109.7, 877.9),
    "RTX PRO 6000 Blackwell Server Edition": _Rates(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet", 500, 500, 250, 120, 1000
    ),
    "RTX 6000 Ada Generation": _Rates(_ADA_PRO, 364.2, 364.2, 182.1, 91.1, 728.5),
    "RTX 5000 Ada Generation": _Rates("NVIDIA RTX 5000 Ada Generation datasheet", 261.1, 261.1, 130.6, 65.3, 522.2),
    "RTX A6000": _Rates("NVIDIA RTX A6000 datasheet", 154.8, 154.8, 77.4, 38.7),
    "RTX A5000": _Rates("NVIDIA RTX A5000 datasheet", 111.1, 111.1, 55.6, 27.8),
    "RTX A4000": _Rates("NVIDIA RTX A4000 datasheet", 76.7, 76.7, 38.3, 19.2),
}

# NVIDIA, GeForce: the rates "with FP32 accumulate", half of those with FP16 accumulate.
_BLACKWELL = "NVIDIA RTX Blackwell GPU architecture whitepaper, FP32 accumulate"
_ADA = "NVIDIA Ada GPU architecture whitepaper, FP32 accumulate"
_AMPERE = "NVIDIA Ampere GA102 GPU architecture whitepaper, FP32 accumulate"
_GEFORCE = {
    "GeForce RTX 5090": _Rates(_BLACKWELL, 209.5, 209.5, 104.8, 104.8, 419),
    "GeForce RTX 5080": _Rates(_BLACKWELL, 112.6, 112.6, 56.3, 56.3, 225.1),
    "GeForce RTX 5070 Ti": _Rates(_BLACKWELL, 87.9, 87.9, 43.9, 43.9, 175.8),
    "GeForce RTX 5070": _Rates(_BLACKWELL, 61.7, 61.7, 30.9, 30.9, 123.5),
    "GeForce RTX 4090": _Rates(_ADA, 165.2, 165.2, 82.6, 82.6, 330.3),
    "GeForce RTX 4080": _Rates(_ADA, 97.5, 97.5, 48.7, 48.7, 194.9),
    "GeForce RTX 4070 Ti": _Rates(_ADA, 80.2, 80.2, 40.1, 40.1, 160.4),
    "GeForce RTX 3090 Ti": _Rates(_ADA, 80, 80, 40, 40),
    "GeForce RTX 3090": _Rates(_AMPERE, 71.2, 71.2, 35.6, 35.6),
    "GeForce RTX 3080 Ti": _Rates(_ADA, 68.2, 68.2, 34.1, 34.1),
    "GeForce RTX 3080": _Rates(_AMPERE, 59.5, 59.5, 29.8, 29.8),
    "GeForce RTX 3070": _Rates(_AMPERE, 40.6, 40.6, 20.3, 20.3),
}

# AMD: fp32 is that of matrix products. An MI250(X) is two devices to torch, so theirs is half of the package.
_MI300X = _Rates("AMD Instinct MI300X datasheet", 1307.4, 1307.4, 653.7, 163.4, 2614.9)
_AMD = {
    "AMD Instinct MI355X": _Rates("AMD Instinct MI355X datasheet", 2516.6, 2516.6, None, 157.3, 5033.2),
    "AMD Instinct MI350X": _Rates("AMD Instinct MI350X datasheet", 2306.9, 2306.9, None, 144.2, 4613.7),
    "AMD Instinct MI325X": _Rates("AMD Instinct MI325X datasheet", 1307.4, 1307.4, 653.7, 163.4, 2614.9),
    "AMD Instinct MI300X": _MI300X,
    "AMD Instinct MI300X VF": _MI300X,
    "AMD Instinct MI300A": _Rates("AMD Instinct MI300A datasheet", 980.6, 980.6, 490.3, 122.6, 1961.2),
    "AMD Instinct MI250X": _Rates("AMD Instinct MI250X datasheet, half of the package", 191.5, 191.5, None, 47.9),
    "AMD Instinct MI250": _Rates("AMD Instinct MI250 datasheet, half of the package", 181, 181, None, 45.3),
    "AMD Instinct MI210": _Rates("AMD Instinct MI210 datasheet", 181, 181, None, 45.3),
    "AMD Instinct MI100": _Rates("AMD Instinct MI100 datasheet", 92.3, 184.6, None, 46.1),
}

# Intel. Left out: the Max 1550, whose one name stands for one or both of its stacks, as the driver is told.
# Apple is left out too: it states figures for some chips with all cores only, and torch gives no device's name.
_INTEL = {
    "Intel(R) Data Center GPU Max 1100": _Rates("Intel Data Center GPU Max Series product brief", 352, 352, 176, 22.2),
    "GAUDI3": _Rates("Intel Gaudi 3 AI accelerator white paper, matrix engine", 1835, None, None, None, 1835),
    "GAUDI2": _Rates("Intel Gaudi 2 AI accelerator white paper, matrix engine", 432, None, None, None, 865),
}

_BY_NAME: dict[str, _Rates] = {
    "GB300": _GB300,
    "GB200": _GB200,
    "B300 SXM6 AC": _B300,
    "B200": _B200,
    "H200": _H200_SXM,
    "H200 NVL": _H200_NVL,
    "GH200 480GB": _GH200,
    "GH200 120GB": _GH200,
    "GH200 144G HBM3e": _GH200,
    "H100 80GB HBM3": _H100_SXM,
    "H100 NVL": _H100_NVL,
    "H100 PCIe": _H100_PCIE,
    "A100-SXM4-40GB": _A100,
    "A100-SXM4-80GB": _A100,
    "A100-PCIE-40GB": _A100,
    "A100 80GB PCIe": _A100,
    "A30": _A30,
    "A40": _A40,
    "A10": _A10,
    "A10G": _A10G,
    "L4": _L4,
    "L40": _L40,
    "L40S": _L40S,
    "Tesla T4": _T4,
    "Tesla V100-SXM2-16GB": _V100_SXM,
    "Tesla V100-SXM2-32GB": _V100_SXM,
    "Tesla V100-SXM3-32GB": _V100_SXM,
    "Tesla V100-PCIE-16GB": _V100_PCIE,
    "Tesla V100-PCIE-32GB": _V100_PCIE,
    "Tesla V100S-PCIE-32GB": _V100S,
    **_WORKSTATION,
    **_GEFORCE,
    **_AMD,
    **_INTEL,
}
