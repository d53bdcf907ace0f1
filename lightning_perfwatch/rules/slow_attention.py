"""Rule: attention is computed step by step instead of by a fused kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import OpCosts, attention
from lightning_perfwatch.trace.columns import Bools
from lightning_perfwatch.trace.intervals import Floats


@dataclass(frozen=True)
class SlowAttention(Rule):
    """Attention is computed step by step instead of by a fused kernel.

    What it is: ``scaled_dot_product_attention`` took its path "math", or the code multiplies, masks, takes the softmax
    and multiplies again by hand.

    Why it costs: each step writes a matrix of the size tokens x tokens per head and the next one reads it, forward and
    backward. A fused kernel keeps it in the cache and does little more than the matrix products.

    How it is measured: from the trace, the operators of attention with their backward pass (the nodes named after
    them), on the device's clock where there are kernels. A fused kernel needs about what the matrix products need
    here, and half of what the softmax does (its inner loop stays): measured on a CPU of the kind AMD EPYC (AVX-512,
    float32, one thread, forward and backward), the fused kernel took 0.69 to 0.99 of the path "math" without
    dropout for up to 512 tokens and 0.52 for 1024, and 0.31 to 0.75 of it with dropout. So everything else counts as
    lost. In bfloat16 on a CPU without AMX the fused kernel was slower (1.95 times), so there it is information only.

    Fix: on a CPU the fused kernel knows no dropout, no mask that needs a gradient or is not of two or four dimensions,
    no inputs that have to be broadcast or whose last dimension is strided; on a GPU no float64 and some combinations
    of mask, type and head dimension. Remove the reason, or replace the handwritten attention by
    ``torch.nn.functional.scaled_dot_product_attention``.

    Silent when: a fused kernel is used, or less than ``info_share`` would be saved. Under ``warning_share`` it is
    information.
    """

    info_share: float = 0.01
    warning_share: float = 0.05
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for each of the two ways."""
        costs = evidence.op_costs
        assert costs is not None
        found = attention(costs)
        if found.math.any():
            reason, advice = _refusal(evidence, costs, found.math)
            yield from self._finding(evidence, costs, found.math_us, reason, advice, "scaled_dot_product_attention")
        if found.by_hand.any():
            reason, advice = _by_hand(evidence, costs, found.by_hand)
            yield from self._finding(evidence, costs, found.by_hand_us, reason, advice, "softmax(Q @ K) @ V")

    def _finding(
        self, evidence: Evidence, costs: OpCosts, us: Floats, reason: str, advice: str, op: str
    ) -> Iterable[Finding]:
        total_us = float(us.sum())
        products_us = float(us[costs.named(_PRODUCTS.__contains__)].sum())
        softmax_us = float(us[costs.named(_SOFTMAX.__contains__)].sum())
        share = costs.share_of_us(max(0.0, total_us - products_us - _SOFTMAX_LEFT * softmax_us))
        if share < self.info_share:
            return
        slower = _is_slower_when_fused(evidence)
        if slower:
            reason += ", but in 16 bits a CPU without AMX may not be faster with it"
        severity = (
            Severity.INFO if share < self.warning_share or slower
            else Severity.CRITICAL if share >= self.critical_share
            else Severity.WARNING
        )  # fmt: skip
        dropout_us = float(us[costs.inside(costs.named(_DROPOUT.__contains__))].sum())
        yield Finding(
            rule=self.id(),
            severity=severity,
            share=None if slower else share,
            share_is="estimate",
            summary=f"Attention takes {100 * costs.share_of_us(total_us):.0f} % of the step on the slow path, "
            f"{100 * share:.0f} % more than a fused kernel would need: {reason}.",
            advice=advice,
            where=Where(op=op),
            evidence={
                "attention_share": costs.share_of_us(total_us),
                "matrix_product_share": costs.share_of_us(products_us),
                "softmax_share": costs.share_of_us(softmax_us),
                "dropout_share": costs.share_of_us(dropout_us),
                "clock": costs.clock,
            },
        )


_SOFTMAX_LEFT = 0.5
_PRODUCTS = frozenset(("aten::bmm", "aten::baddbmm", "aten::baddbmm_"))
_SOFTMAX = frozenset(("aten::_softmax", "aten::_softmax_backward_data"))
_DROPOUT = frozenset(("aten::dropout", "aten::native_dropout", "aten::bernoulli_"))
_MASKS = frozenset(("aten::add", "aten::add_"))
_CAUSAL = frozenset(("aten::tril", "aten::triu"))


def _refusal(evidence: Evidence, costs: OpCosts, forward: Bools) -> tuple[str, str]:
    """Why the fused kernel was not taken, and what to do about it."""

    def has(names: frozenset[str]) -> bool:
        return bool((forward & costs.named(names.__contains__)).any())

    settings, on_device = evidence.settings, costs.clock == "device"
    enabled = None if settings is None else settings.sdp_backends
    if enabled is not None and not set(enabled) & ({"flash", "mem_efficient", "cudnn"} if on_device else {"flash"}):
        return (
            "its fused backends are switched off",
            "Switch them on again: torch.backends.cuda.enable_flash_sdp(True)"
            + (" and torch.backends.cuda.enable_mem_efficient_sdp(True)." if on_device else "."),
        )
    if has(_DROPOUT) and not on_device:
        return (
            "its dropout_p is above 0, and the fused kernel for CPUs knows no dropout",
            "Call scaled_dot_product_attention with dropout_p=0.0 on a CPU (keep dropout behind the projection).",
        )
    if has(_MASKS) and not has(_CAUSAL):
        if on_device:
            return (
                "its mask, together with the type or the head dimension, suits no fused kernel",
                "Pass is_causal=True instead of attn_mask where the mask is causal, and compute in 16 bits.",
            )
        return (
            "it has a mask that needs a gradient, or that has neither two nor four dimensions",
            "Pass attn_mask.detach() of the shape (batch, heads, queries, keys) or (queries, keys), or is_causal=True.",
        )
    if on_device:
        return (
            "the type, the head dimension or the shapes of its inputs suit no fused kernel, or sdpa_kernel chose the "
            "math backend",
            "Compute attention in 16 bits (precision='bf16-mixed') with a head dimension that is a multiple of 8 and "
            "at most 256.",
        )
    return (
        "its inputs are broadcast or their last dimension is strided, or sdpa_kernel chose the math backend",
        "Pass query, key and value of equal batch size and heads with a contiguous last dimension (.contiguous()).",
    )


def _by_hand(evidence: Evidence, costs: OpCosts, forward: Bools) -> tuple[str, str]:
    has_dropout = costs.clock == "host" and bool((forward & costs.named(_DROPOUT.__contains__)).any())
    without = " It needs dropout_p=0.0: the fused kernel for CPUs knows no dropout." if has_dropout else ""
    if evidence.settings is not None and evidence.settings.num_multihead_attentions:
        return (
            "softmax stands between two matrix products, as in nn.MultiheadAttention when it returns its weights",
            "Call nn.MultiheadAttention with need_weights=False, or scaled_dot_product_attention instead of softmax "
            "between two matrix products." + without,
        )
    return (
        "it is written by hand, with a softmax between two matrix products",
        "Replace softmax(Q @ K.transpose(-2, -1) / sqrt(d)) @ V by torch.nn.functional.scaled_dot_product_attention("
        "Q, K, V), with is_causal=True where no token sees a later one." + without,
    )


def _is_slower_when_fused(evidence: Evidence) -> bool:
    run, settings = evidence.run, evidence.settings
    if run is None or settings is None or run.device_type != "cpu":
        return False
    return settings.autocast_dtype in ("bfloat16", "float16") and settings.cpu_bf16 != "amx"
