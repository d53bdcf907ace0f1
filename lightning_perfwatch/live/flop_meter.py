"""What a batch costs in model FLOPs, and what the run's device could do: the parts of model FLOPs utilisation.

Owns the choice between the user's figure and a counted one. Knows no formula, no profiler and no report.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from traceback import format_exception_only
from typing import Any

import torch

from lightning_perfwatch.counts import Flops
from lightning_perfwatch.live.clock import Device
from lightning_perfwatch.live.flops import StepFlops
from lightning_perfwatch.live.peaks import Peak, find_peak, is_listed
from lightning_perfwatch.live.step_count import StepCount

log = logging.getLogger(__name__)

UserFlops = float | Callable[[Any], float]


class FlopMeter:
    """The FLOPs of each batch, by the user's figure or scaled by tokens from the batch that was counted.

    A batch whose tokens can't be told is taken to cost what the counted one did; others cost in proportion to their
    tokens, which neglects that attention grows with the square of the length.

    Args:
        user: the FLOPs of a batch on one device, or a function of the batch that gives them; None to count.
        peak_tflops: the device's peak in 1e12 FLOP/s by the user; None to look it up.
        device: the run's device.
        precision: the Trainer's precision, which tells the kind of numbers where no step was counted.
        count: how a step is counted; None where this process is not to.
    """

    def __init__(
        self, user: UserFlops | None, peak_tflops: float | None, device: Device, precision: str, count: StepCount | None
    ) -> None:
        self._user = user
        self._peak_tflops = peak_tflops
        self._device = device
        self._precision = precision
        self.count = count if user is None else None
        self._counted_tokens: int | None = None
        self._all, self._clean = _Sums(), _Sums()
        self._user_failed = False
        self._peak: Peak | None = None
        self._result_used: StepFlops | None = None

    @classmethod
    def of_run(
        cls,
        trainer: Any,
        module: Any,
        device: Device,
        flops_per_batch: UserFlops | None,
        peak_tflops: float | None,
        count: StepCount | None,
    ) -> FlopMeter:
        """The meter of this run; the setting wins over what the module says of itself."""
        user = module_flops(module) if flops_per_batch is None else flops_per_batch
        return cls(user, peak_tflops, device, str(trainer.precision), count)

    def add(self, batch: Any, tokens: int | None, *, clean: bool) -> float | None:
        """One training step; its FLOPs, None where they are not known."""
        flops = self._user_flops(batch)
        result = self._result_used = None if self.count is None else self.count.result
        if result is not None and result.flops is not None:
            if self._counted_tokens is None:
                self._counted_tokens = tokens or 0
                self._peak = self._find_peak()
            flops = self._scaled(result.flops, tokens)
        elif flops is not None and self._peak is None:
            self._peak = self._find_peak()
        self.add_again(flops, tokens, num_steps=1, clean=clean)
        return flops

    def add_again(self, flops: float | None, tokens: int | None, *, num_steps: int, clean: bool) -> None:
        """More steps that cost what :meth:`add` gave for one with as many ``tokens``."""
        for sums in (self._all, self._clean) if clean else (self._all,):
            sums.add(flops, tokens, num_steps)

    @property
    def is_settled(self) -> bool:
        """Whether another batch with as many tokens as the last one costs the same."""
        return not callable(self._user) and (self.count is None or self.count.result is self._result_used)

    @property
    def peak_flops_per_s(self) -> float | None:
        """The device's peak; None where it is not known, or not yet."""
        return None if self._peak is None else self._peak.flops_per_s

    def flops(self) -> Flops:
        """All that is known now."""
        sums = self._clean if self._clean.num_steps else self._all
        result = None if self.count is None else self.count.result
        per_batch: float | None = None
        if callable(self._user):
            per_batch = None if sums.flops is None or not sums.num_steps else sums.flops / sums.num_steps
        elif self._user is not None:
            per_batch = self._user
        elif result is not None and result.flops is not None:
            mean_tokens = None if sums.tokens is None or not sums.num_steps else sums.tokens / sums.num_steps
            per_batch = self._scaled(result.flops, mean_tokens)
        peak = self._peak or self._find_peak()
        return Flops(
            flops_per_batch=per_batch,
            source=None if per_batch is None else "counted" if self._user is None else "user",
            dtype=self._dtype(),
            peak_flops_per_s=None if peak is None else peak.flops_per_s,
            peak_source=None if peak is None else peak.source,
            reason=self._reason(per_batch, peak),
        )

    def notes(self) -> list[str]:
        """Why there is no MFU, in one note, on a device of which one might expect it; none on a CPU."""
        reason = self.flops().reason
        return [] if reason is None or self._device.type == "cpu" else [f"MFU is not known: {reason}"]

    def _user_flops(self, batch: Any) -> float | None:
        if not callable(self._user):
            return self._user
        try:
            value = float(self._user(batch))
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"a batch's FLOPs are a positive number, got {value!r}")
        except Exception as error:  # noqa: BLE001 - the user's own function may fail in any way
            if not self._user_failed:
                self._user_failed = True
                said = "".join(format_exception_only(error)).strip()
                log.warning("PerfWatch can't use flops_per_batch (%s): MFU stays unknown.", said)
            return None
        return value

    def _scaled(self, flops: float, tokens: float | None) -> float:
        return flops * tokens / self._counted_tokens if tokens and self._counted_tokens else flops

    def _dtype(self) -> str | None:
        result = None if self.count is None else self.count.result
        dtype = _of_precision(self._precision) if result is None or result.dtype is None else result.dtype
        return "tf32" if dtype == "fp32" and self._device.type == "cuda" and _allows_tf32() else dtype

    def _find_peak(self) -> Peak | None:
        if self._peak_tflops is not None:
            return Peak(self._peak_tflops * 1e12, "the setting peak_tflops")
        dtype = self._dtype()
        if dtype is None or self._device.type == "cpu":
            return None
        peak = find_peak(self._device.name, dtype)
        # cards without TF32 units compute in fp32 whatever is allowed
        return find_peak(self._device.name, "fp32") if peak is None and dtype == "tf32" else peak

    def _reason(self, per_batch: float | None, peak: Peak | None) -> str | None:
        if per_batch is None:
            result = None if self.count is None else self.count.result
            if self._user is not None:
                ended = "the run ended before the first step was over"
                return "flops_per_batch gave no number for some batch" if self._all.num_steps else ended
            why = "the run ended before a step was counted" if result is None else result.reason
            return f"{why}; give flops_per_batch to have it"
        if peak is not None:
            return None
        if self._device.type == "cpu":
            return "no peaks of CPUs are listed; give peak_tflops to have it"
        if is_listed(self._device.name):
            return f"no dense {self._dtype()} peak of {self._device.name} is published; give peak_tflops to have it"
        return f"the dense peak of {self._device.name} is not listed; give peak_tflops to have it"


@dataclass
class _Sums:
    """Sums over steps; None once a step's amount is not known."""

    num_steps: int = 0
    flops: float | None = 0.0
    tokens: int | None = 0

    def add(self, flops: float | None, tokens: int | None, num_steps: int) -> None:
        self.num_steps += num_steps
        self.flops = None if flops is None or self.flops is None else self.flops + flops * num_steps
        self.tokens = None if tokens is None or self.tokens is None else self.tokens + tokens * num_steps


def module_flops(module: Any) -> UserFlops | None:
    """The LightningModule's own ``flops_per_batch``, which Lightning's ThroughputMonitor reads too."""
    value = None
    with suppress(Exception):  # a property of the user's may fail in any way
        value = getattr(module, "flops_per_batch", None)
    if callable(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
        return float(value)
    return None


def _of_precision(precision: str) -> str | None:
    kind = precision.partition("-")[0]
    return {"bf16": "bf16", "16": "fp16", "32": "fp32", "64": "fp64", "transformer": "fp8"}.get(kind)


def _allows_tf32() -> bool:
    """Whether products of fp32 numbers may be computed in TF32, by either of torch's two settings."""
    if getattr(torch.backends.cuda.matmul, "fp32_precision", None) == "tf32":
        return True
    with suppress(RuntimeError):  # torch refuses to tell one where the other was set
        return torch.get_float32_matmul_precision() != "highest"
    return False
