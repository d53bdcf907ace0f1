"""Rule: chains of elementwise operators move the same numbers through memory again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.frequency import how_often
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import OpCosts, attention, code_place
from lightning_perfwatch.trace.chains import Chain, chains
from lightning_perfwatch.trace.columns import Bools


@dataclass(frozen=True)
class MemoryBoundOps(Rule):
    """Chains of elementwise operators move the same numbers through memory again and again.

    What it is: a formula of several elementwise operators in a row, such as a GELU, a norm or a loss written by hand.

    Why it costs: each operator reads its input from memory and writes its result back, forward and backward, and
    computes almost nothing in between. One fused kernel reads and writes once.

    How it is measured: from the trace, runs of at least ``min_ops`` elementwise operators and small reductions that
    the forward pass calls one after the other (views between them don't count), with their backward pass, on the
    device's clock where there are kernels. A fused kernel needs about what one operator of the chain needs,
    the mean one or, where that is more, the most expensive one that computes (``tanh``, ``erf``, ``pow`` and the
    like), with its part of the backward pass; the rest is lost. Attention, dropout and the optimizer have rules of
    their own and are left out. Operators that take less than ``min_host_op_us`` (on a device ``min_device_op_us``) on
    the average are bound by the calls, not by memory.

    Fix: use torch's own function where there is one (``torch.nn.functional.gelu``, ``layer_norm``, ``silu``,
    ``cross_entropy``); else decorate the function that holds the formula with ``torch.compile``.

    Silent when: less than ``info_share`` would be saved; under ``warning_share`` it is information.
    """

    info_share: float = 0.03
    warning_share: float = 0.05
    critical_share: float = 0.25
    min_ops: int = 4
    min_host_op_us: float = 20.0
    min_device_op_us: float = 5.0
    max_chains: int = 3

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """One finding for each kind of chain, the most expensive ones."""
        costs = evidence.op_costs
        assert costs is not None
        least_us = self.min_device_op_us if costs.clock == "device" else self.min_host_op_us
        apart = attention(costs).forward | costs.inside(costs.named(_DROPOUT.__contains__))
        found = []
        for chain in chains(costs, self.min_ops, apart):
            if costs.share_of_us(chain.us) < self.info_share / _MOST_BACKWARD:
                continue
            rows = chain.rows(costs)
            if chain.us >= least_us * _num_counted(costs, rows):
                found.append((_Cost.of(costs, chain, rows), chain))
        found = [(cost, chain) for cost, chain in found if cost.saved_share >= self.info_share]
        for cost, chain in sorted(found, key=lambda item: -item[0].saved_share)[: self.max_chains]:
            yield self._finding(costs, cost, chain)

    def _finding(self, costs: OpCosts, cost: _Cost, chain: Chain) -> Finding:
        share = cost.saved_share
        name, advice = _replacement(chain.names, on_device=costs.clock == "device")
        place = code_place(costs.trace, costs.trace.ops.take(chain.rows(costs)))
        per_step = costs.trace.per_step(chain.num_calls)
        return Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="estimate",
            summary=f"{name} of {len(chain.names)} operators ({_shown(chain.names)}), "
            f"{how_often(chain.num_calls, per_step)}, takes {100 * cost.share:.0f} % of the step; "
            f"fused it would take {100 * (cost.share - share):.0f} %.",
            advice=advice,
            where=Where(
                file=None if place is None else place.file,
                line=None if place is None else place.line,
                op=_shown(chain.names),
            ),
            evidence={
                "operators": list(chain.names),
                "chain_share": cost.share,
                "chains_per_step": per_step,
                "clock": costs.clock,
            },
        )  # fmt: skip


@dataclass(frozen=True)
class _Cost:
    """What a chain takes with its backward pass, and what a fused kernel would save, as shares of the window."""

    share: float
    saved_share: float

    @classmethod
    def of(cls, costs: OpCosts, chain: Chain, rows: Bools) -> _Cost:
        forward_us = np.where(rows, costs.us, 0.0)
        names = costs.trace.names
        by_name = np.bincount(costs.trace.ops.name, forward_us, len(names))
        total = float(forward_us.sum())
        share = costs.share_of_us(total + float(costs.backward_us(rows).sum()))
        calls = np.bincount(costs.trace.ops.name[rows & (costs.parent < 0)], minlength=len(names))
        computes = costs.trace.matching(costs.trace.ops, _COMPUTE.__contains__)
        is_costly = np.bincount(costs.trace.ops.name[rows & computes], minlength=len(names)) > 0
        per_call = float(np.where(is_costly, by_name / np.maximum(calls, 1), 0.0).max())
        left = max(1.0 / len(chain.names), per_call * chain.num_calls / total if total > 0 else 1.0)
        return cls(share, share * max(0.0, 1.0 - left))


def _num_counted(costs: OpCosts, rows: Bools) -> int:
    """How many of the chain's calls lie in the steps: those outside of them cost nothing here."""
    return int((rows & (costs.parent < 0) & (costs.us > 0)).sum())


_DROPOUT = frozenset(("aten::dropout", "aten::native_dropout", "aten::feature_dropout", "aten::alpha_dropout"))
# Operators that compute more than they read and write: measured on a CPU, a fused GELU still takes what its tanh does,
# a fused softmax much less than its exp, which is bound by memory.
_COMPUTE = frozenset(
    f"aten::{name}" for name in ("tanh", "erf", "erfc", "pow", "sin", "cos", "log1p", "expm1", "softplus")
)
_MOST_SHOWN = 9
_MOST_BACKWARD = 8  # times the forward, so that chains that are far too cheap need no closer look


def _shown(names: tuple[str, ...]) -> str:
    more = f" > {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return " > ".join(names[:_MOST_SHOWN]) + more


_COMPILE = "Decorate the function that holds them with @torch.compile, or compile the model: one kernel for all."


def _replacement(names: tuple[str, ...], on_device: bool) -> tuple[str, str]:
    """What the chain seems to compute, and what to use instead."""
    held = frozenset(names)
    if "tanh" in held and held & {"pow", "mul"} and len(names) >= _GELU_OPS:
        return (
            "A handwritten GELU",
            'Call torch.nn.functional.gelu(x, approximate="tanh") instead, or decorate it with @torch.compile.',
        )
    if "erf" in held:
        return "A handwritten GELU", "Call torch.nn.functional.gelu(x) instead, or decorate it with @torch.compile."
    if "mean" in held and held & {"rsqrt", "sqrt"}:
        if held & {"sub", "var"}:
            return (
                "A handwritten layer norm",
                "Call torch.nn.functional.layer_norm instead, or decorate it with @torch.compile.",
            )
        if on_device:
            return (
                "A handwritten RMS norm",
                "Call torch.nn.functional.rms_norm instead, or decorate it with @torch.compile.",
            )
        # On a CPU torch 2.14 composes rms_norm of the same operators: 0.99 times as fast, measured.
        return "A handwritten RMS norm", "Decorate the norm's forward with @torch.compile: one kernel for all."
    if {"exp", "sum"} <= held:
        return "A handwritten softmax", "Call torch.softmax, log_softmax or cross_entropy instead."
    return "A chain", _COMPILE


_GELU_OPS = 6
