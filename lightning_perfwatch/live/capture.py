"""The only owner of torch.profiler: records a window of training steps into a trace file.

Owns the profiler's life from the start of a window to its end; outside of windows none exists. Knows no schedule and
reads no trace.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity
from torch.profiler.profiler import _KinetoProfile  # torch documents it as the low-level profiler

from lightning_perfwatch.live.rivals import StartListener, profiler_on_thread
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.measurements import Window

log = logging.getLogger(__name__)

STEP_PREFIX = "ProfilerStep#"
ABORTED_PREFIX = "AbortedStep #"  # of the same length: it is written over the other in the finished file
_SILENT = "99"  # Kineto's levels end at 5; 3 is louder than the default, anything above the last is silent
_FAILURES = (OSError, RuntimeError, ValueError, AssertionError)  # what torch raises where a trace fails


class CaptureError(RuntimeError):
    """Recording failed; the message says why in one clause."""


class Capture:
    """Records one window: ``begin_trial`` and ``end_trial`` for a warmup step, then ``start``, steps, ``stop``.

    Args:
        directory: where the trace is written; it exists.
        worker: first part of the file's name, such as ``rank0``.
        device_types: types of the devices to record besides the CPU.
        options: what is recorded, and how large a trace may become.
        rank: rank of this process.
        world_size: number of processes of the run.
    """

    def __init__(
        self,
        directory: Path,
        worker: str,
        device_types: Iterable[str],
        options: TraceOptions,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._directory = directory
        self._worker = worker
        self._device_types = frozenset(device_types)
        self._options = options
        self._rank = rank
        self._world_size = world_size
        self._profiler: Any = None
        self._thread = 0
        self._annotation: Any = None
        self._planned = range(0)
        self._num_done = 0
        self._mb_per_step: float | None = None
        self._starts = StartListener(self._give_way)
        self.is_recording = False
        self.gave_way = False

    @property
    def is_on(self) -> bool:
        """Whether a profiler of this capture runs."""
        return self._profiler is not None

    @property
    def is_full(self) -> bool:
        """Whether all steps of the window are recorded, or as many as the trace has room for."""
        return self._num_done >= len(self._planned)

    def begin_trial(self) -> None:
        """Record a warmup step for nothing: it pays for the profiler's start and shows how large a step's trace is.

        Raises:
            CaptureError: the profiler can't be started.
        """
        self._begin()

    def end_trial(self, num_steps: int) -> None:
        """Throw the trial away and learn from it; ``num_steps`` went by.

        Raises:
            CaptureError: the profiler can't be stopped.
        """
        self._mb_per_step = _exported_mb(self.take_trial()) / max(1, num_steps)

    def take_trial(self) -> Any:
        """End a trial and hand over its stopped profiler.

        Raises:
            CaptureError: the profiler can't be stopped.
        """
        return self._end()

    def start(self, planned: range) -> str | None:
        """Record the steps ``planned``, or as many as ``max_trace_mb`` has room for: then the reason is returned.

        Raises:
            CaptureError: the profiler can't be started.
        """
        reason = None
        most_mb = self._options.max_trace_mb
        if self._mb_per_step is not None and self._mb_per_step * len(planned) > most_mb:
            room = max(1, int(most_mb / self._mb_per_step))
            if room < len(planned):
                reason = (
                    f"the window closes after {room} of {len(planned)} steps: one step takes "
                    f"{self._mb_per_step:.1f} MB of trace and max_trace_mb is {most_mb:g}"
                )
                planned = planned[:room]
        self._begin()
        self._profiler.add_metadata_json("perfwatch", _json({"first_step": planned.start, "steps": len(planned)}))
        if self._world_size == 1:  # torch adds it under torch.distributed; other tools refuse traces without it
            info = {"backend": None, "rank": self._rank, "world_size": 1}
            self._profiler.add_metadata_json("distributedInfo", _json(info))
        self._planned = planned
        self._num_done = 0
        self.is_recording = True
        return reason

    def fits(self, num_steps: float) -> bool:
        """Whether this much more, in steps, has room in the trace beside the planned steps."""
        if self._mb_per_step is None:
            return True
        return self._mb_per_step * (len(self._planned) + num_steps) <= self._options.max_trace_mb

    def begin_step(self) -> None:
        """A training step begins; does nothing if it has begun already."""
        if self.is_recording and self._annotation is None and not self.is_full:
            step = self._planned[self._num_done]
            self._annotation = torch.profiler.record_function(f"{STEP_PREFIX}{step}")
            self._annotation.__enter__()

    def end_step(self) -> None:
        """The running training step is complete."""
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None
            self._num_done += 1

    def stop(self, planned: range, reason: str | None = None) -> Window:
        """End the window, write its trace and say what came of it. Never raises; a failure becomes the reason.

        A step that is still running is not complete: it stays in the trace as ``AbortedStep #N``.
        """
        if not self.is_recording:
            self.discard()
            return Window(planned.start, 0, len(planned), partial=True, reason=reason)
        num_steps = self._num_done
        aborted = None if self._annotation is None else self._planned[self._num_done]
        self._annotation = None
        window = Window(
            self._planned.start,
            num_steps,
            len(planned),
            partial=num_steps < len(planned),
            reason=reason,
            rank=self._rank,
        )
        start_s = time.perf_counter()
        try:
            profiler = self._end()
        except CaptureError as error:
            return replace(window, partial=True, reason=str(error))
        stop_s = time.perf_counter() - start_s
        if num_steps == 0:
            return replace(window, partial=True, reason=reason or "the run ended before a step was recorded")
        path = self._directory / f"{self._worker}.{time.time_ns()}.pt.trace.json"
        try:
            _export(profiler, path)
            if aborted is not None:
                _rename_step(path, aborted)
        except _FAILURES as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return replace(window, partial=True, reason=f"the trace could not be written: {error}")
        return replace(
            window,
            trace=path.name,
            stop_s=stop_s,
            export_s=time.perf_counter() - start_s - stop_s,
            size_mb=path.stat().st_size / 1e6,
        )

    def discard(self) -> None:
        """Stop whatever runs and keep nothing; safe to call at any time."""
        self._annotation = None
        if self._profiler is not None:
            with suppress(CaptureError):
                self._end()

    def _begin(self) -> None:
        os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
        activities = [ProfilerActivity.CPU]
        for kind, activity in (("cuda", ProfilerActivity.CUDA), ("xpu", ProfilerActivity.XPU)):
            if kind in self._device_types:
                activities.append(activity)
        try:
            if profiler_on_thread() is not None:
                raise CaptureError("another profiler runs on this thread")
            self._thread = threading.get_ident()
            self._profiler = _KinetoProfile(  # kept before it starts: Ctrl-C may come at any moment
                activities=activities,
                record_shapes=self._options.record_shapes,
                profile_memory=self._options.profile_memory,
                with_stack=self._options.with_stack,
            )
            self._profiler.prepare_trace()
            self._profiler.start_trace()
        except _FAILURES as error:
            self._profiler = None
            raise CaptureError(f"the profiler could not be started: {error}") from error
        self._starts.listen()

    def _end(self) -> Any:
        """The stopped profiler, which is this capture's no longer."""
        self.is_recording = False
        profiler = self._profiler
        if self.gave_way:
            raise CaptureError("another profiler was started while the window was open")
        if threading.get_ident() != self._thread:
            raise CaptureError("it can only be stopped on the thread that started it")
        self._starts.ignore()
        try:
            profiler.stop_trace()
        except _FAILURES as error:
            self._profiler = None
            raise CaptureError(f"the profiler could not be stopped: {error}") from error
        self._profiler = None
        return profiler

    def _give_way(self) -> None:
        """The user's code starts a profiler: it gets the process to itself, and this recording is lost.

        Kineto would cancel this one silently, and whoever exports a cancelled recording crashes the process.
        """
        self._annotation = None
        if threading.get_ident() == self._thread:
            with suppress(CaptureError):
                self._end()
        self._starts.ignore()
        self._profiler = None
        self.is_recording = False
        self.gave_way = True


def _export(profiler: Any, path: Path) -> None:
    profiler.export_chrome_trace(str(path))
    if not path.is_file() or path.stat().st_size == 0:  # Kineto only complains on stderr
        raise OSError(f"no file appeared at {path}")


def _exported_mb(profiler: Any) -> float:
    """Size of the plain trace: the one way to count its events that does not build Python objects for each."""
    with tempfile.TemporaryDirectory(prefix="perfwatch-") as directory:
        path = Path(directory) / "trial.json"
        try:
            _export(profiler, path)
        except _FAILURES as error:
            log.debug("PerfWatch could not estimate the size of its trace: %s", error)
            return 0.0
        return path.stat().st_size / 1e6


def _rename_step(path: Path, step: int) -> None:
    """Take the name of a step from one that was not completed, in place."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        position = content.find(f'"{STEP_PREFIX}{step}"'.encode())
        while position >= 0:
            content[position + 1 : position + 1 + len(STEP_PREFIX)] = ABORTED_PREFIX.encode()
            position = content.find(f'"{STEP_PREFIX}{step}"'.encode(), position + 1)


def _json(value: object) -> str:
    """Kineto writes metadata as it is given, so it has to be strict JSON."""
    return json.dumps(value, allow_nan=False)
