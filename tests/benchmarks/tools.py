"""One tool reads one trace and says how long that took, its imports not counted.

Run as a script by any interpreter that has the tool: ``python tools.py TOOL TRACE [NUM_EVENTS]``. Imports nothing of
this project but for the tool ``perfwatch``, so that it runs where this project is not installed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

MISSING = 3
"""Exit status where the interpreter does not have the tool."""

ONLY_IMPORT = "--only-import"
"""In place of the number of events: say only whether the tool is there."""

_LAYERS, _BATCH = 24, 8


def perfwatch(path: str) -> Callable[[], object]:
    """This project, from the file to the report's text."""
    from lightning_perfwatch import cli
    from lightning_perfwatch.rules import all_rules

    all_rules()
    for module in ("bare_trace", "run_directory", "reporters.terminal"):
        importlib.import_module(f"lightning_perfwatch.{module}")
    return lambda: cli.main(["analyze", path, "--format", "json", "-o", os.devnull])


def hta(path: str) -> Callable[[], object]:
    """HolisticTraceAnalysis: parse and temporal breakdown, which it only has for a trace with device work."""
    from hta.trace_analysis import TraceAnalysis

    def read() -> None:
        analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))  # noqa: PTH120 - its own type
        with contextlib.suppress(IndexError):  # what it raises without a kernel
            analysis.get_temporal_breakdown(visualize=False)

    return read


def tb_profiler(path: str) -> Callable[[], object]:
    """torch-tb-profiler's loader."""
    from torch_tb_profiler.profiler.data import RunProfileData

    return lambda: RunProfileData.parse("worker", "1", path, tempfile.gettempdir())


def gpu_idle(path: str) -> Callable[[], object]:
    """gpu-idle, whose module has a general name."""
    import analyzer

    return lambda: analyzer.analyze(path)


def events(path: str) -> Callable[[], object]:
    """torch's own ``events()`` and ``key_averages()`` on a live profile, which is exported to ``path``."""
    importlib.import_module("torch")
    if sys.argv[3] == ONLY_IMPORT:
        return lambda: None
    profile = _recorded(int(sys.argv[3]))
    profile.export_chrome_trace(path)
    return lambda: (profile.events(), profile.key_averages())


def _recorded(num_events: int) -> Any:
    """A profile of about this many events: a small network trained on the CPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    layers = [layer for _ in range(_LAYERS) for layer in (torch.nn.Linear(16, 16), torch.nn.GELU())]
    model, batch = torch.nn.Sequential(*layers), torch.randn(_BATCH, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    num_steps = max(2, num_events // (_LAYERS * 50))  # measured: 50 events a layer and step
    recorder = profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=num_steps))
    recorder.start()
    for _ in range(num_steps + 1):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        if recorder.step_num < num_steps:
            recorder.step()
    recorder.stop()
    return recorder


TOOLS = {"perfwatch": perfwatch, "hta": hta, "tb_profiler": tb_profiler, "gpu_idle": gpu_idle, "events": events}


def main() -> int:
    """Print the seconds as JSON, on a line of its own at the end."""
    try:
        read = TOOLS[sys.argv[1]](sys.argv[2])
    except ImportError as error:
        sys.stdout.write(f"\n{json.dumps(str(error))}\n")
        return MISSING
    if ONLY_IMPORT in sys.argv:
        return 0
    start_s = time.perf_counter()
    read()
    sys.stdout.write(f"\n{json.dumps(time.perf_counter() - start_s)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
