"""One fit of a tiny model in which a tool is switched on and off every 50 steps, and what each step took.

Run as a script by any interpreter that has the tool: ``python toy_fit.py TOOL TRAINER NUM_STEPS MEASURE``, TRAINER
``default`` or ``bare``, MEASURE ``measure``, ``whole``, ``memory`` or ``waits``. Prints JSON. Imports nothing of this
project but for the tool ``perfwatch``, so that it runs where this project is not installed. Switched off means that the
Trainer is as if the tool had never been there: the callback is out of its list and its own profiler is back.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

MISSING = 3
"""Exit status where the interpreter does not have the tool."""

EVERY = 50
"""Steps from one switch to the next: as often as Lightning logs, or all rows of metrics would fall to the tool's steps
and be paid by half of them."""

FIRST = 3000
"""Steps before the first switch, with the tool on: its window, its first row of metrics and the analysis lie there."""

Tool = tuple[Any, Any]
"""A callback, or None, and a profiler for the Trainer, or None."""


def perfwatch() -> Tool:
    """This project, as a user has it."""
    return importlib.import_module("lightning_perfwatch").PerfWatch(quiet=True), None


def empty_hooks() -> Tool:
    """A control: a callback with two hooks that do nothing."""
    from lightning.pytorch.callbacks import Callback

    class EmptyHooks(Callback):
        def on_train_batch_start(self, *arguments: Any) -> None:
            pass

        def on_train_batch_end(self, *arguments: Any) -> None:
            pass

    return EmptyHooks(), None


def nothing() -> Tool:
    """Another control: switches nothing at all, and so shows how far off this method is."""
    return None, None


def throughput_monitor() -> Tool:
    """Lightning's own."""
    from lightning.pytorch.callbacks import ThroughputMonitor

    return ThroughputMonitor(batch_size_fn=len), None


def pytorch_profiler() -> Tool:
    """Lightning's own, whose window is over before the first switch."""
    import torch
    from lightning.pytorch.profilers import PyTorchProfiler

    schedule = torch.profiler.schedule(wait=10, warmup=2, active=5, repeat=1)
    return None, PyTorchProfiler(dirpath=".", filename="profile", schedule=schedule)


def traceml() -> Tool:
    """TraceML's callback, with the patches that it asks for."""
    integration = importlib.import_module("traceml_ai.integrations.lightning")
    integration.init()
    return integration.TraceMLCallback(), None


def gpuprof() -> Tool:
    """gpuprof's callback."""
    return importlib.import_module("gpuprof").LightningCallback(run_name="toy", db_path="gpuprof.db"), None


TOOLS: dict[str, Callable[[], Tool]] = {
    tool.__name__: tool
    for tool in (perfwatch, empty_hooks, nothing, throughput_monitor, pytorch_profiler, traceml, gpuprof)
}


class Switch:
    """Puts a tool into a Trainer and takes it out again."""

    def __init__(self, tool: Tool) -> None:
        self._callback = tool[0]
        self._place = 0
        self._profiler: Any = None
        self._own_profiler: Any = None
        self.is_on = True

    def prepare(self, own_profiler: Any) -> None:
        """``own_profiler`` is what a Trainer has that nobody watches."""
        self._own_profiler = own_profiler

    def flip(self, trainer: Any) -> None:
        """On becomes off, off becomes on."""
        if self.is_on:
            self._profiler, trainer.profiler = trainer.profiler, self._own_profiler
        else:
            trainer.profiler = self._profiler
        if self._callback is not None:
            if self.is_on:
                self._place = trainer.callbacks.index(self._callback)
                trainer.callbacks.remove(self._callback)
            else:
                trainer.callbacks.insert(self._place, self._callback)
        self.is_on = not self.is_on


def fit(tool_name: str, kind: str, num_steps: int, on_step: Callable[[int, Any], None]) -> dict[str, Any]:
    """Train ``num_steps`` steps with the tool; ``on_step`` is called in each of them. What the tool has to say."""
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.profilers import PassThroughProfiler
    from torch.utils.data import DataLoader

    callback, profiler = TOOLS[tool_name]()
    switch = Switch((callback, profiler))
    num_done = 0

    class Toy(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            nonlocal num_done
            on_step(num_done, (switch, self.trainer))
            num_done += 1
            return self.layer(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.set_num_threads(1)
    bare: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
                            "enable_model_summary": False} if kind == "bare" else {}  # fmt: skip
    if kind == "bare" and tool_name == "throughput_monitor":
        bare["logger"] = True  # it refuses to work without one
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, callbacks=[] if callback is None else [callback], profiler=profiler, **bare
    )
    switch.prepare(PassThroughProfiler())
    data: Any = torch.randn(num_steps, 8)
    trainer.fit(Toy(), DataLoader(data, batch_size=1))
    report = getattr(callback, "report", None)
    if report is None or report.overhead is None:
        return {}
    overhead, counted = report.overhead, report.counted
    return {
        "hooks_s": overhead.hooks_s,
        "num_steps": overhead.num_steps,
        "listening_s": overhead.listening_s,
        "spared_s": overhead.spared_s,
        "num_synchronizations": counted.num_synchronizations,
    }


def first_switch(num_steps: int) -> int:
    """The step of the first switch, earlier than ``FIRST`` in a fit that is short."""
    return min(FIRST, num_steps // 3)


def measure(tool_name: str, kind: str, num_steps: int) -> dict[str, Any]:
    """Readings of the wall clock and of the thread's CPU time in each step, and where the tool was switched."""
    at_ns: list[int] = []
    cpu_ns: list[int] = []
    first = first_switch(num_steps)

    def on_step(step: int, place: Any) -> None:
        at_ns.append(time.perf_counter_ns())
        cpu_ns.append(time.thread_time_ns())
        if step >= first and (step - first) % EVERY == 0:
            place[0].flip(place[1])

    said = fit(tool_name, kind, num_steps, on_step)
    return {"at_ns": at_ns, "cpu_ns": cpu_ns, "first": first, "every": EVERY, "said": said}


def whole(tool_name: str, kind: str, num_steps: int) -> dict[str, Any]:
    """Readings of the wall clock with the tool on all the time, for one that can't be taken out again."""
    at_ns: list[int] = []
    fit(tool_name, kind, num_steps, lambda step, place: at_ns.append(time.perf_counter_ns()))
    return {"at_ns": at_ns, "first": first_switch(num_steps), "every": EVERY}


def memory(tool_name: str, kind: str, num_steps: int) -> dict[str, Any]:
    """Resident bytes in the middle of the fit and at its end, with the tool on all the time."""
    bytes_at: dict[int, int] = {}

    def on_step(step: int, place: Any) -> None:
        if step in (num_steps // 2, num_steps - 1):
            gc.collect()
            with open("/proc/self/statm") as file:  # noqa: PTH123 - no file on a disk
                bytes_at[step] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    fit(tool_name, kind, num_steps, on_step)
    return {"bytes": list(bytes_at.values())}


def waits(tool_name: str, kind: str, num_steps: int) -> dict[str, Any]:
    """Calls of torch that wait for values or for the device, from the steps after the tool's window."""
    import torch
    from torch.overrides import TorchFunctionMode

    waiting = {"item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "nonzero", "is_nonzero", "equal"}
    count = 0
    first = first_switch(num_steps)

    class Counting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += getattr(func, "__name__", "") in waiting
            return func(*args, **(kwargs or {}))

    mode: Any = Counting()
    cuda: Any = torch.cuda
    original = cuda.synchronize

    def synchronize(*arguments: Any) -> None:
        nonlocal count
        count += 1

    def on_step(step: int, place: Any) -> None:
        if step == first:
            mode.__enter__()
            cuda.synchronize = synchronize
        elif step == num_steps - 1:
            mode.__exit__(None, None, None)
            cuda.synchronize = original

    said = fit(tool_name, kind, num_steps, on_step)
    return {"num_waits": count, "num_steps": num_steps - 1 - first, "said": said}


MEASURES = {measure.__name__: measure for measure in (measure, whole, memory, waits)}


def main() -> int:
    """Print what was measured as JSON, on a line of its own at the end."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # some tools write where they are, already when they are made
        try:
            return _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        finally:
            os.chdir("/")


def _main(tool_name: str, kind: str, num_steps: int) -> int:
    try:
        TOOLS[tool_name]()
    except ImportError as error:
        sys.stdout.write(f"\n{json.dumps(str(error))}\n")
        return MISSING
    if num_steps == 0:
        return 0
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # noqa: PTH123 - a device
        measured = MEASURES[sys.argv[4]](tool_name, kind, num_steps)
    sys.stdout.write(f"\n{json.dumps(measured)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
