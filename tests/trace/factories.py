"""Small Kineto documents: events as the profiler writes them, and the trace that the reader makes of them.

Times are microseconds. A device event names the call that started it by `correlation`.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from lightning_perfwatch.trace import Trace, read_trace

Json = dict[str, Any]

HOST, MAIN = 100, 100  # process and main thread


def event(name: str, cat: str | None, start: float, dur: float, **fields: Any) -> Json:
    """One timed event; `fields` overwrite or add keys."""
    base: Json = {"ph": "X", "name": name, "pid": HOST, "tid": MAIN, "ts": start, "dur": dur}
    if cat is not None:
        base["cat"] = cat
    return base | fields


def op(start: float, dur: float, name: str = "aten::mm", tid: int = MAIN, **fields: Any) -> Json:
    return event(name, "cpu_op", start, dur, tid=tid, **fields)


def annotation(name: str, start: float, dur: float, **fields: Any) -> Json:
    return event(name, "user_annotation", start, dur, **fields)


def step(number: int, start: float, dur: float, **fields: Any) -> Json:
    return annotation(f"ProfilerStep#{number}", start, dur, **fields)


def device_step(number: int, start: float, dur: float) -> Json:
    return event(f"ProfilerStep#{number}", "gpu_user_annotation", start, dur, pid=0, tid=7)


def fetch(start: float, dur: float, **fields: Any) -> Json:
    """A wait for the data loader."""
    return annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start, dur, **fields)


def call(
    start: float, dur: float, name: str = "cudaLaunchKernel", correlation: int = 0, cat: str = "cuda_runtime"
) -> Json:
    """A call into the device's runtime."""
    return event(name, cat, start, dur, args={"correlation": correlation})


def device_event(
    name: str, cat: str, start: float, dur: float, correlation: int, device: int, stream: int, **args: Any
) -> Json:
    known = {"device": device, "stream": stream, "correlation": correlation}
    return event(name, cat, start, dur, pid=device, tid=stream, args=known | args)


def kernel(
    start: float,
    dur: float,
    name: str = "sgemm",
    correlation: int = 0,
    device: int = 0,
    stream: int = 7,
) -> Json:
    return device_event(name, "kernel", start, dur, correlation, device, stream)


def copy(
    start: float, dur: float, kind: str = "HtoD (Pageable -> Device)", correlation: int = 0, stream: int = 7
) -> Json:
    return device_event(f"Memcpy {kind}", "gpu_memcpy", start, dur, correlation, 0, stream, bytes=1024)


def fill(start: float, dur: float, correlation: int = 0, stream: int = 7) -> Json:
    return device_event("Memset (Device)", "gpu_memset", start, dur, correlation, 0, stream, bytes=64)


def optimizer_step(start: float, dur: float, name: str = "AdamW.step", **fields: Any) -> Json:
    return annotation(f"Optimizer.step#{name}", start, dur, **fields)


def frame(name: str, start: float, dur: float, **fields: Any) -> Json:
    """A Python function, or a module's call: "nn.Module: Linear_0"."""
    return event(name, "python_function", start, dur, **fields)


def memory(at: float, num_bytes: int, tid: int = MAIN, **args: Any) -> Json:
    """An allocation, or with a negative size a free, on the CUDA device 0."""
    known = {"Device Type": 1, "Device Id": 0, "Bytes": num_bytes}
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": HOST, "tid": tid, "ts": at} | {
        "args": known | args
    }


def phase(ph: str, name: str, at: float, **fields: Any) -> Json:
    """The begin ("B") or the end ("E") of an operator, as other writers put it."""
    return {"ph": ph, "cat": "cpu_op", "name": name, "pid": HOST, "tid": MAIN, "ts": at} | fields


def document(*events: Json, **metadata: Any) -> Json:
    """The object that Kineto writes."""
    return {"schemaVersion": 1, **metadata, "traceEvents": list(events), "traceName": "trace.json"}


def trace_of(text: str | bytes) -> Trace:
    """What the reader makes of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "worker.1.pt.trace.json"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_trace(path)


def trace(*events: Json, **metadata: Any) -> Trace:
    """What the reader makes of these events."""
    return trace_of(json.dumps(document(*events, **metadata)))
