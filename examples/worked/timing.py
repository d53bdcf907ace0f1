"""Timing a large matrix product with and without waiting for the device.

A GPU works on its own: a call returns when the work is queued, so a clock that is read then has seen the queueing
only. A CPU does the work within the call.
"""

import time
from statistics import median

import torch

NUM_ROUNDS = 20


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done all that was asked of it; a CPU always has."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def product_s(size: int, device: torch.device, *, waits: bool) -> float:
    """Median seconds of one product of two square matrices, as a clock sees it that `waits` for the device or not."""
    left, right = torch.randn(2, size, size, device=device)
    times_s = []
    for _ in range(NUM_ROUNDS + 2):
        synchronize(device)
        start_s = time.perf_counter()
        left @ right
        if waits:
            synchronize(device)
        times_s.append(time.perf_counter() - start_s)
    return median(times_s[2:])  # the first ones load kernels


def main(size: int | None = None) -> None:
    """Time the product in both ways and say why they differ, or why they don't."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = size or (8192 if device.type == "cuda" else 1024)
    without_s, with_s = (product_s(size, device, waits=waits) for waits in (False, True))
    print(f"{size} x {size} by {size} x {size} on {device.type}, median of {NUM_ROUNDS}")
    for name, seconds in (("without synchronize", without_s), ("with synchronize", with_s)):
        print(f"  {name:<19}  {seconds * 1e3:9.3f} ms  {2 * size**3 / seconds / 1e12:9.3f} TFLOP/s")
    if device.type == "cpu":
        print("A CPU computes within the call, so both clocks see the same work and differ by noise only.")
    else:
        print("Without synchronize the clock saw the product being queued, not computed: its TFLOP/s are no speed.")
        print("PerfWatch waits at the edges of intervals only; within them it times by events on the device's clock.")
