"""The model FLOPs of one recorded training step, from the shapes of its operators.

Owns the formulas and what counts as the model's own work. Knows no profiler, no Trainer and no device.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

Shape = Sequence[int]


class Op(NamedTuple):
    """One operator or other named span of a recorded step, in the terms of torch's profiler.

    ``shapes``, ``dtypes`` and ``values`` are those of its arguments: a tensor has no value, other arguments have no
    shape. ``sequence`` is -1 where no gradient was asked for. ``is_backward`` is set for an autograd node's own span.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int = 0
    sequence: int = -1
    is_backward: bool = False
    shapes: Sequence[Shape] = ()
    dtypes: Sequence[str] = ()
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class StepFlops:
    """The model FLOPs of a step and the type of numbers that most of them are of, or the ``reason`` for not knowing."""

    flops: float | None = None
    dtype: str | None = None
    reason: str | None = None


def count_flops(ops: Iterable[Op]) -> StepFlops:
    """The model FLOPs of the step whose operators are ``ops``: forward and backward, a multiply-add as two.

    Matrix products, convolutions and attention count, at ``2 m n k`` for a product of (m, k) by (k, n); elementwise
    work does not. Attention is counted in full also where it is causal, and its backward pass as twice its forward
    pass, without the scores that a fused kernel computes again: with heads and layers that is ``12 T`` times the
    width per token and layer, the convention of PaLM (Chowdhery et al. 2022, appendix B). What activation
    checkpointing computes again is no model FLOP, and neither is the optimizer's work. Inside of a compiled region
    recomputation looks like the backward pass, which is therefore taken to cost at most twice the forward pass.
    """
    spans = _nest(ops)
    if any(span.op.name.endswith("(dynamo_timed)") for span in spans):
        return StepFlops(reason="torch.compile was at work in the step that was counted")
    uncountable = next((span for span in spans if _is_uncountable(span)), None)
    if uncountable is not None:
        return StepFlops(reason=f"the FLOPs of {uncountable.op.name} can't be told from its arguments")
    optimizer = _OptimizerWork(spans)
    by_dtype: dict[str, float] = defaultdict(float)
    compiled = {"forward": 0.0, "backward": 0.0}
    for span in spans:
        if not _is_counted(span) or _is_recomputed(span) or optimizer.holds(span):
            continue
        try:
            flops = _FORMULAS[span.op.name](span.op)
        except (IndexError, TypeError, ValueError):  # another form of the operator than the formula is for
            flops = None
        if flops is None:
            return StepFlops(reason=f"the FLOPs of {span.op.name} can't be told from its arguments")
        by_dtype[_DTYPES.get(next(iter(span.op.dtypes), ""), "other")] += flops
        region = next((_COMPILED[above.op.name] for above in span.above() if above.op.name in _COMPILED), None)
        if region is not None:
            compiled[region] += flops
    total = float(sum(by_dtype.values()))
    total -= max(0.0, compiled["backward"] - 2 * compiled["forward"]) if compiled["forward"] else 0.0
    if total <= 0:
        return StepFlops(reason="no matrix product, convolution or attention was seen in the step")
    return StepFlops(flops=total, dtype=max(by_dtype, key=by_dtype.__getitem__))


@dataclass
class _Span:
    """An operator with what it lies in; ``node`` is the nearest autograd node that was being evaluated."""

    op: Op
    parent: _Span | None
    node: _Span | None
    inner: list[_Span] = field(default_factory=list)

    def above(self) -> Iterable[_Span]:
        span = self.parent
        while span is not None:
            yield span
            span = span.parent

    def below(self) -> Iterable[_Span]:
        for inner in self.inner:
            yield inner
            yield from inner.below()


def _nest(ops: Iterable[Op]) -> list[_Span]:
    spans = []
    stacks: dict[int, list[_Span]] = defaultdict(list)
    for op in sorted(ops, key=lambda op: (op.start_ns, -op.end_ns)):
        stack = stacks[op.thread]
        while stack and stack[-1].op.end_ns < op.end_ns:
            stack.pop()
        parent = stack[-1] if stack else None
        node = None
        if parent is not None:
            node = parent if parent.op.name.startswith(_EVALUATION) else parent.node
        span = _Span(op, parent, node)
        if parent is not None:
            parent.inner.append(span)
        stack.append(span)
        spans.append(span)
    return spans


def _is_counted(span: _Span) -> bool:
    """Whether this operator does the arithmetic itself: one on a sharded tensor calls itself on the local part."""
    name = span.op.name
    if name not in _FORMULAS or any(above.op.name in _OPAQUE for above in span.above() if above.op.name != name):
        return False
    kinds = {name} if name in _OPAQUE else set(_FORMULAS)
    return not any(inner.op.name in kinds for inner in span.below())


def _is_uncountable(span: _Span) -> bool:
    name = span.op.name
    return _UNCOUNTABLE.search(name) is not None and not any(above.op.name in _FORMULAS for above in span.above())


def _is_recomputed(span: _Span) -> bool:
    """Whether a backward pass called this operator to have activations again that were thrown away.

    Then it asks for gradients inside of a node that itself asks for none (as it does when gradients of gradients are
    wanted: those are the model's own).
    """
    if span.node is None or not _asks_within(span, span.node):
        return False
    direct = [inner for inner in span.node.inner if not inner.op.is_backward]
    direct += [inner for node in span.node.inner if node.op.is_backward for inner in node.inner]
    return any(
        inner.op.sequence < 0 and any(inner.op.shapes) and not inner.op.name.startswith(_EVALUATION) for inner in direct
    )


def _asks_within(span: _Span, node: _Span) -> bool:
    inside: _Span | None = span
    while inside is not None and inside is not node:
        if inside.op.sequence >= 0 and not inside.op.is_backward:
            return True
        inside = inside.parent
    return False


class _OptimizerWork:
    """Tells the optimizer's own products (Muon, Shampoo) from those of a closure that it calls.

    The closure comes first and ends with a backward pass, so an optimizer's own work has none after it.
    """

    def __init__(self, spans: list[_Span]) -> None:
        self._evaluations_ns = [span.op.start_ns for span in spans if span.op.name.startswith(_EVALUATION)]

    def holds(self, span: _Span) -> bool:
        if span.node is not None:
            return False
        step = next((above for above in span.above() if above.op.name.startswith("Optimizer.step#")), None)
        if step is None:
            return False
        following = bisect_right(self._evaluations_ns, span.op.start_ns)
        return following == len(self._evaluations_ns) or self._evaluations_ns[following] > step.op.end_ns


def _product(first: Shape, second: Shape) -> float | None:
    """(…, m, k) by (…, k, n)."""
    return 2.0 * prod(first) * second[-1] if len(first) > 1 and len(second) > 1 else None


def _mm(op: Op) -> float | None:
    return _product(op.shapes[0], op.shapes[1])


def _addmm(op: Op) -> float | None:
    return _product(op.shapes[1], op.shapes[2])


def _convolution(op: Op) -> float | None:
    x, weight = op.shapes[:2]
    stride, padding, dilation, transposed = op.values[3:7]
    if not x or not weight:
        return None
    if transposed:  # each input element meets the whole of its filters
        return 2.0 * prod(x) * prod(weight[1:])
    places = [
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(
            x[2:], weight[2:], _each(stride, x), _each(padding, x), _each(dilation, x), strict=True
        )
    ]
    return 2.0 * x[0] * prod(places) * prod(weight)


def _convolution_backward(op: Op) -> float | None:
    """Of the gradients of input and weight, those that are wanted, each at the cost of the forward pass."""
    grad, x, weight = op.shapes[:3]
    transposed, wanted = op.values[7], op.values[10]
    if not x or not weight or not isinstance(wanted, Sequence):
        return None
    forward = 2.0 * prod(x) * prod(weight[1:]) if transposed else 2.0 * prod(grad) * prod(weight[1:])
    return forward * (bool(wanted[0]) + bool(wanted[1]))


def _each(value: Sequence[int], x: Shape) -> Sequence[int]:
    return list(value) * (len(x) - 2) if len(value) == 1 else value


def _attention(op: Op) -> float | None:
    return _scores_and_values(*op.shapes[:3])


def _attention_backward(op: Op) -> float | None:
    forward = _scores_and_values(*op.shapes[1:4])
    return None if forward is None else 2 * forward


def _scores_and_values(query: Shape, key: Shape, value: Shape) -> float | None:
    """Query (…, T, D) by key (…, S, D), the scores by value (…, S, E)."""
    if min(len(query), len(key), len(value)) < 3:
        return None
    return 2.0 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


_FORMULAS = {
    "aten::mm": _mm,
    "aten::bmm": _mm,
    "aten::_scaled_mm": _mm,
    "aten::addmm": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::baddbmm": _addmm,
    "aten::addbmm": _addmm,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
}
_FUSED_ATTENTION = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")
for _kind in (*_FUSED_ATTENTION, "fused_attention_overrideable"):
    _FORMULAS[f"aten::_scaled_dot_product_{_kind}"] = _attention
    _FORMULAS[f"aten::_scaled_dot_product_{_kind}_backward"] = _attention_backward
_FORMULAS["aten::_scaled_dot_product_attention_math_for_mps"] = _attention
_OPAQUE = frozenset(name for name in _FORMULAS if "_scaled_dot_product_" in name)

_EVALUATION = "autograd::engine::evaluate_function"
_COMPILED = {"CompiledFunction": "forward", "CompiledFunctionBackward": "backward"}
_DTYPES = {
    "float": "fp32",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "double": "fp64",
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2"), "fp8"),
}

# Work whose amount is not in its arguments' shapes, or that another library's or the compiler's own kernels do
# (triton_tem: inductor's templates for products and flex attention), or that a graph replays out of sight.
_UNCOUNTABLE = re.compile(
    r"_rnn\b|_rnn_|rnn_layer|^aten::_(flash|efficient)_attention_|^flash_attn|^xformers|flex_attention|triton_tem"
    r"|^transformer_engine|_grouped_mm|^fbgemm|^(cuda|hip)GraphLaunch"
)
