"""Counts the FLOPs of one training step by recording its operators, as the profiler sees them.

Owns that recording and what may hide operators from it. Knows no formula.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning_perfwatch.live.capture import Capture, CaptureError
from lightning_perfwatch.live.flops import Op, StepFlops, count_flops
from lightning_perfwatch.live.syncs import may_compile
from lightning_perfwatch.live.trace_options import TraceOptions


class StepCount:
    """Counts the FLOPs of one training step by recording its operators.

    The recording only listens: it changes no result and draws no random number, compiles nothing anew and sees into
    compiled regions.

    Args:
        device_types: types of the devices to record besides the CPU.
        rival: who else profiles, in words; asked before the recording begins.
    """

    def __init__(self, device_types: list[str], rival: Callable[[], str | None]) -> None:
        self._capture = Capture(Path(), "flops", device_types, TraceOptions(record_shapes=True))
        self._rival = rival
        self.result: StepFlops | None = None

    def skip(self, reason: str) -> None:
        """No step is to be counted, for this reason."""
        self.result = StepFlops(reason=reason)

    def begin_step(self) -> None:
        """Record from here."""
        reason = self._rival() or _hidden_by_compiler()
        try:
            if reason is None:
                self._capture.begin_trial()
        except CaptureError as error:
            reason = str(error)
        if reason is not None:
            self.skip(f"the step's operators could not be recorded: {reason}")

    def end_step(self) -> None:
        """Record no longer, and count."""
        if self._capture.gave_way:
            self.skip("the step's operators could not be recorded: another profiler was started")
        elif self._capture.is_on:
            try:
                self.result = count_flops(_ops(self._capture.take_trial()))
            except CaptureError as error:
                self.skip(f"the step's operators could not be recorded: {error}")

    def discard(self) -> None:
        """Record no longer and keep nothing; safe to call at any time."""
        self._capture.discard()


def _ops(profiler: Any) -> list[Op]:
    return [
        Op(
            name=event.name(),
            start_ns=event.start_ns(),
            end_ns=event.start_ns() + event.duration_ns(),
            thread=event.start_thread_id(),
            sequence=event.sequence_nr(),
            is_backward=event.scope() == _BACKWARD_SCOPE,
            shapes=event.shapes(),
            dtypes=event.dtypes(),
            values=event.concrete_inputs(),
        )
        for event in profiler.profiler.kineto_results.events()
        if event.device_type().name == "CPU"
    ]


_BACKWARD_SCOPE = 1  # at::RecordScope::BACKWARD_FUNCTION


def _hidden_by_compiler() -> str | None:
    """Why products of compiled regions would not be seen; None if they are calls of operators like others."""
    if not may_compile():
        return None
    from torch._dynamo import eval_frame
    from torch._inductor import config

    chosen: list[dict[str, Any]] = [
        {
            "max_autotune": config.max_autotune,
            "max_autotune_gemm": config.max_autotune_gemm,
            "triton.cudagraphs": config.triton.cudagraphs,
        }
    ]
    chosen += [getattr(backend, "config", {}) or {} for backend in eval_frame.cached_backends.values()]
    for options in chosen:
        for name, value in options.items():
            if value is True and name.replace("-", "_") in _HIDING:
                return f"torch.compile with {name} hides the operators"
    return None


_HIDING = ("max_autotune", "max_autotune_gemm", "triton.cudagraphs")
