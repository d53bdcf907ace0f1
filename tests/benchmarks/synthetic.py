"""A synthetic trace of a training on one GPU, as large as wanted, written as Kineto writes its own.

Owns the mix of events and their spelling. Written block by block, so that its size needs no memory; the same
arguments give the same bytes. Knows nothing of measuring.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NUM_STEPS = 20
BYTES_PER_LAYER = 11_630  # measured: one layer's 46 events of one step
BYTES_PER_LAYER_WITH_SHAPES = 15_000

_PID, _MAIN, _AUTOGRAD, _STREAM, _COMM_STREAM = 412_345, 412_345, 412_399, 7, 20
_START_US = 4_458_676_522_690.0
_LAYER_US = 420.0
_LOAD_US = 900.0
_GPU_LAG_US = 1500.0
_FIRST_ID = 1_000_000  # as in a run that has been going for a while; HTA fails on a large trace with small ones
_NUM_TOKENS = 16_384
_WIDTHS = (1024, 4096, 1024, 3072)
_NUM_JITTERS = 997  # prime, so that no layer repeats another's times

_DEVICE = """    {
      "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85094825984,
      "computeMajor": 8, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 108
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936
    }"""
_HEAD = f"""{{
  "schemaVersion": 1,
  "deviceProperties": [
{_DEVICE}
  ],
  "traceEvents": [
"""
_TAIL = """
  ],
  "traceName": "trace.json",
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1711964646000000000
}
"""

_HOST = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,%s"Record function id": %d, %s"Ev Idx": %d
    }
  }"""
_FORWARD_FLOW = """  {
    "ph": "%s", "id": %d, "pid": %d, "tid": %d, "ts": %.3f,
    "cat": "fwdbwd", "name": "fwdbwd"%s
  }"""
_CALL = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,      "cbid": 211, "correlation": %d
    }
  }"""
_LAUNCH_FLOW = """  {
    "ph": "%s", "id": %d, "pid": %d, "tid": %d, "ts": %.3f,
    "cat": "ac2g", "name": "ac2g"%s
  }"""
_KERNEL = """  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,      "queued": 0, "device": 0, "context": 1,      "stream": %d, "correlation": %d,      \
"registers per thread": 40,      "shared memory": 400,      "blocks per SM": 4.740741,      \
"warps per SM": 75.851852,      "grid": [512, 1, 1],      "block": [512, 1, 1],      "est. achieved occupancy %%": 75
    }
  }"""
_COPY = """  {
    "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,      "device": 0, "context": 1,      "stream": 7, "correlation": %d,      \
"bytes": 8192000, "memory bandwidth (GB/s)": 24.6920152091255
    }
  }"""
_ANNOTATION_ON_DEVICE = """  {
    "ph": "X", "cat": "gpu_user_annotation", "name": "%s", "pid": 0, "tid": 7,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d
    }
  }"""


@dataclass(frozen=True)
class _Op:
    """A host operator at ``start``..``end`` of its layer (0..1); ``kernel`` is what it launches, if anything.

    ``inputs`` are sizes of tensors, in terms of the layer's width W and the number of tokens T, and numbers ("1").
    """

    name: str
    start: float
    end: float
    is_backward: bool = False
    kernel: str | None = None
    inputs: str = ""


def _kernel_name(kind: str, size: int) -> str:
    functor = f"at::native::CUDAFunctor_{kind}<c10::BFloat16>, at::detail::Array<char*, {size % 5 + 1}>"
    return f"void at::native::{kind}_kernel<{size}, {functor} >(int, {functor})"


# A linear layer and its activation, forward and backward, and the optimizer's part: 18 operators, 6 launches.
_LAYER = (
    _Op("aten::linear", 0.00, 0.19, inputs="TxW WxW W"),
    _Op("aten::t", 0.01, 0.06, inputs="WxW"),
    _Op("aten::transpose", 0.02, 0.05, inputs="WxW 0 1"),
    _Op("aten::as_strided", 0.03, 0.04, inputs="WxW 1 1 0"),
    _Op(
        "aten::addmm", 0.07, 0.18, False, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "W TxW WxW 1 1"
    ),
    _Op("aten::gelu", 0.20, 0.28, False, _kernel_name("vectorized_elementwise", 4), "TxW 1"),
    _Op("autograd::engine::evaluate_function: GeluBackward0", 0.30, 0.41, True),
    _Op("GeluBackward0", 0.31, 0.40, True, inputs="TxW"),
    _Op("aten::gelu_backward", 0.32, 0.39, True, _kernel_name("gelu_backward", 4), "TxW TxW 1"),
    _Op("autograd::engine::evaluate_function: AddmmBackward0", 0.42, 0.80, True),
    _Op("AddmmBackward0", 0.43, 0.79, True, inputs="TxW"),
    _Op("aten::t", 0.44, 0.49, True, inputs="WxW"),
    _Op("aten::transpose", 0.45, 0.48, True, inputs="WxW 0 1"),
    _Op("aten::mm", 0.50, 0.62, True, "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn", "TxW WxW"),
    _Op("aten::mm", 0.63, 0.78, True, "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nt", "WxT TxW"),
    _Op("torch::autograd::AccumulateGrad", 0.81, 0.86, True, inputs="WxW"),
    _Op("aten::detach", 0.82, 0.85, True, inputs="WxW"),
    _Op("aten::_foreach_add_", 0.88, 0.98, False, _kernel_name("multi_tensor_apply", 512), "WxW WxW 1"),
)
_LAUNCHES = tuple(op for op in _LAYER if op.kernel is not None)
_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
_FETCH = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def write_trace(path: Path, size_mb: float, *, with_shapes: bool = False) -> int:
    """Write a trace of about ``size_mb`` (1e6 bytes each) to ``path``; the number of its events.

    An event has some 250 bytes; ``with_shapes`` operators tell of their inputs, as they do with ``record_shapes=True``,
    and it has some 326. Thirteen public traces have 127 to 463, in the median 313.
    """
    bytes_per_layer = BYTES_PER_LAYER_WITH_SHAPES if with_shapes else BYTES_PER_LAYER
    num_layers = max(1, round(size_mb * 1e6 / bytes_per_layer / NUM_STEPS))
    shape = _Shape(num_layers, with_shapes)
    num_events = 0
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        file.write(_HEAD)
        for block in shape.blocks():
            file.write(",\n".join(block) if num_events == 0 else ",\n" + ",\n".join(block))
            num_events += len(block)
        file.write(_TAIL)
    return num_events


class _Shape:
    """All events of ``NUM_STEPS`` steps of ``num_layers`` layers, first the host's and then the device's."""

    def __init__(self, num_layers: int, with_shapes: bool) -> None:
        self.num_layers = num_layers
        self._inputs = {width: [_inputs(op.inputs, width) for op in _LAYER] for width in _WIDTHS if with_shapes}
        self.step_us = _LOAD_US + num_layers * _LAYER_US
        generator = random.Random(0)
        self._jitter = [0.2 + 0.6 * generator.random() for _ in range(_NUM_JITTERS)]

    def blocks(self) -> Iterator[list[str]]:
        """The events of one layer at a time, in the order of Kineto's own files."""
        for step in range(NUM_STEPS):
            yield self._step_on_host(step)
            for layer in range(self.num_layers):
                yield self._layer_on_host(step, layer)
        for step in range(NUM_STEPS):
            yield self._step_on_device(step)
            for layer in range(self.num_layers):
                yield self._layer_on_device(step, layer)
        yield [_metadata(name, value) for name, value in (("process_name", '"name": "python"'), *_SORT)]

    def _start_us(self, step: int) -> float:
        return _START_US + step * self.step_us

    def _layer_us(self, step: int, layer: int) -> float:
        return self._start_us(step) + _LOAD_US + layer * _LAYER_US

    def _first_id(self, step: int, layer: int) -> int:
        """The number from which a layer numbers its operators and launches; a step's own are before layer 0's."""
        return _FIRST_ID + (step * (self.num_layers + 1) + layer + 1) * len(_LAYER)

    def _step_on_host(self, step: int) -> list[str]:
        start_us, number = self._start_us(step), self._first_id(step, -1)
        parts = (
            ("user_annotation", f"ProfilerStep#{step + 3}", 0.0, self.step_us - 1.0),
            ("user_annotation", _FETCH, 1.0, 300.0),
            ("cpu_op", "aten::to", 310.0, 100.0),
            ("cpu_op", "aten::_to_copy", 315.0, 90.0),
            ("cpu_op", "aten::copy_", 320.0, 80.0),
            ("user_annotation", "Optimizer.step#AdamW.step", self.step_us - 40.0, 38.0),
        )
        return [
            _HOST % (category, name, _PID, _MAIN, start_us + at_us, dur_us, number + row, "", number + row, "", row)
            for row, (category, name, at_us, dur_us) in enumerate(parts)
        ]

    def _layer_on_host(self, step: int, layer: int) -> list[str]:
        start_us, number = self._layer_us(step, layer), self._first_id(step, layer)
        events = []
        for row, op in enumerate(_LAYER):
            thread = _AUTOGRAD if op.is_backward else _MAIN
            at_us, dur_us = start_us + op.start * _LAYER_US, (op.end - op.start) * _LAYER_US
            inputs = self._inputs[_WIDTHS[layer % len(_WIDTHS)]][row] if self._inputs else ""
            sequence = f'"Sequence number": {layer}, "Fwd thread id": 0, ' if inputs else ""
            named = ("cpu_op", op.name, _PID, thread, at_us, dur_us)
            events.append(_HOST % (*named, number + row, sequence, number, inputs, number + row))
        forward_us, backward_us = start_us + _LAYER[4].start * _LAYER_US, start_us + _LAYER[10].start * _LAYER_US
        events.append(_FORWARD_FLOW % ("s", number, _PID, _MAIN, forward_us, ""))
        events.append(_FORWARD_FLOW % ("f", number, _PID, _AUTOGRAD, backward_us, ', "bp": "e"'))
        return events

    def _step_on_device(self, step: int) -> list[str]:
        start_us, number = self._start_us(step), self._first_id(step, -1)
        return [
            _ANNOTATION_ON_DEVICE % (f"ProfilerStep#{step + 3}", start_us + 400.0, self.step_us - 50.0, number),
            _COPY % (start_us + 400.0, 331.2, number + 4, number),
            *_flow(number, _MAIN, start_us + 330.0, _STREAM, start_us + 400.0),
            _CALL % ("cudaMemcpyAsync", _PID, _MAIN, start_us + 330.0, 33.5, number + 4, number),
            _CALL % ("cudaStreamSynchronize", _PID, _MAIN, start_us + 365.0, 20.0, number + 4, number + 1),
        ]

    def _layer_on_device(self, step: int, layer: int) -> list[str]:
        start_us, first = self._layer_us(step, layer), self._first_id(step, layer)
        slot_us = _LAYER_US / len(_LAUNCHES)
        events = []
        for row, op in enumerate(_LAUNCHES):
            number, thread = first + row, _AUTOGRAD if op.is_backward else _MAIN
            called_us = start_us + (op.start + 0.02) * _LAYER_US
            at_us = start_us + _GPU_LAG_US + row * slot_us
            dur_us = slot_us * self._jitter[number % _NUM_JITTERS]
            stream, name = _STREAM, op.kernel
            if row == len(_LAUNCHES) - 1 and layer % 8 == 7:
                stream, name = _COMM_STREAM, _ALL_REDUCE
            events.append(_KERNEL % (name, stream, at_us, dur_us, number, stream, number))
            events += _flow(number, thread, called_us, stream, at_us)
            events.append(_CALL % ("cudaLaunchKernel", _PID, thread, called_us, 6.0 * dur_us / slot_us, number, number))
        for row, name in enumerate(("cudaStreamIsCapturing", "cudaOccupancyMaxActiveBlocksPerMultiprocessor")):
            number = first + len(_LAUNCHES) + row
            events.append(_CALL % (name, _PID, _MAIN, start_us + 0.08 * _LAYER_US + 2 * row, 1.1, number, number))
        return events


def _inputs(told: str, width: int) -> str:
    """What ``record_shapes`` writes of inputs such as "TxW 1", with a comma behind it; nothing of none."""
    if not told:
        return ""
    sizes = [_sizes(word, width) for word in told.split()]
    numbers = [word if not dims else "" for word, dims in zip(told.split(), sizes, strict=True)]
    columns = {
        "Concrete Inputs": [f'"{number}"' for number in numbers],
        "Input type": ['"Scalar"' if number else '"c10::BFloat16"' for number in numbers],
        "Input Strides": [str([dims[1], 1] if len(dims) > 1 else [1] * len(dims)) for dims in sizes],
        "Input Dims": [str(dims) for dims in sizes],
    }
    return "".join(f'"{key}": [{", ".join(values)}], ' for key, values in columns.items())


def _sizes(word: str, width: int) -> list[int]:
    known = {"T": _NUM_TOKENS, "W": width}
    return [] if word.isdecimal() else [known[letter] for letter in word.split("x")]


_SORT = (("process_labels", '"labels": "CPU"'), ("process_sort_index", f'"sort_index": {_PID}'))


def _metadata(name: str, value: str) -> str:
    place = f'"ts": {_START_US:.3f}, "pid": {_PID}, "tid": 0'
    return f'  {{\n    "name": "{name}", "ph": "M", {place},\n    "args": {{\n      {value}\n    }}\n  }}'


def _flow(number: int, thread: int, called_us: float, stream: int, at_us: float) -> list[str]:
    """The arrow from a launch to what it started."""
    return [
        _LAUNCH_FLOW % ("f", number, 0, stream, at_us, ', "bp": "e"'),
        _LAUNCH_FLOW % ("s", number, _PID, thread, called_us, ""),
    ]
