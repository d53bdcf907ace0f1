"""Rule: matrix products in 16 bits have sizes that the tensor cores can't load well."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.trace import OpCosts
from lightning_perfwatch.trace.columns import Bools


@dataclass(frozen=True)
class UnalignedMatmul(Rule):
    """Matrix products in 16 bits have sizes that the tensor cores can't load well.

    What it is: a product of matrices in float16 or bfloat16 on a GPU, one of whose sizes is no multiple of 8, such as
    a vocabulary of 50,257 tokens.

    Why it costs: tensor cores are fed by loads of 16 bytes, 8 numbers of 16 bits. Rows that don't begin at a multiple
    of that need kernels with smaller loads (their names tell ``align1`` or ``align2``).

    How it is measured: from a trace with shapes, the kernels of ``mm``, ``addmm``, ``bmm`` and ``baddbmm`` whose inner
    size or number of columns is no multiple of 8, and those whose number of rows is the same odd size. The share
    assumes that half of their time would be saved; that was not measured.

    Fix: pad the size named to the next multiple of 64 (50,304 instead of 50,257).

    Silent when: all sizes fit, or less than ``info_share`` would be saved; under ``warning_share`` it is information.
    On a CPU it does not matter.
    """

    info_share: float = 0.01
    warning_share: float = 0.05
    critical_share: float = 0.25
    multiple: int = 8

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def skip_reason(self, evidence: Evidence) -> str | None:
        """As for all rules, and for a trace of a GPU without shapes."""
        reason = super().skip_reason(evidence)
        trace = evidence.trace
        if reason is None and trace is not None and len(trace.kernels) and not (trace.ops.dims >= 0).any():
            return "the trace has no shapes; record them with PerfWatch(trace=TraceOptions(record_shapes=True))"
        return reason

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding, about the most expensive size."""
        costs = evidence.op_costs
        assert costs is not None
        if costs.clock != "device":
            return
        cost_of_size = self._cost_of_sizes(costs)
        product_share = costs.share_of_us(sum(cost_of_size.values()))
        share = product_share * _SAVED
        if share < self.info_share:
            return
        worst = max(cost_of_size, key=lambda size: cost_of_size[size])
        padded = -(-worst // _PAD_TO) * _PAD_TO
        yield Finding(
            rule=self.id(),
            severity=Severity.of(share, self.warning_share, self.critical_share),
            share=share,
            share_is="estimate",
            summary=f"Matrix products in 16 bits with sizes that are no multiple of {self.multiple} "
            f"({', '.join(str(size) for size in sorted(cost_of_size))}) take {100 * product_share:.0f} % of the step.",
            advice=f"Pad the layer of size {worst} to {padded}, a multiple of {_PAD_TO}.",
            where=Where(op=f"matrix product with a size of {worst}"),
            evidence={"product_share": product_share, "us_of_size": {str(k): v for k, v in cost_of_size.items()}},
        )  # fmt: skip

    def _cost_of_sizes(self, costs: OpCosts) -> dict[int, float]:
        """Microseconds on the device by the odd size that is to blame."""
        trace = costs.trace
        inner = costs.inclusive(costs.us)
        rows = np.flatnonzero(costs.named(_PRODUCTS.__contains__) & (trace.ops.dims >= 0) & _in_16_bits(costs))
        sizes = [(row, _sizes(trace.inputs[trace.ops.dims[row]])) for row in rows.tolist()]
        known = [(row, found) for row, found in sizes if found is not None and min(found) >= self.multiple]
        odd = {size for _, (_, *others) in known for size in others if size % self.multiple}
        result: dict[int, float] = {}
        for row, (num_rows, *others) in known:
            guilty = [size for size in others if size in odd] or ([num_rows] if num_rows in odd else [])
            if guilty and inner[row] > 0:
                result[guilty[0]] = result.get(guilty[0], 0.0) + float(inner[row])
        return result


_PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"))
_SAVED = 0.5
_PAD_TO = 64


def _in_16_bits(costs: OpCosts) -> Bools:
    trace = costs.trace
    has = np.fromiter(("Half" in text or "BFloat16" in text for text in trace.inputs), np.bool_, len(trace.inputs))
    types = trace.ops.types
    if not len(has):
        return np.zeros(len(types), np.bool_)
    return np.asarray((types >= 0) & has[np.maximum(types, 0)])


def _sizes(text: str) -> tuple[int, int, int] | None:
    """Rows, inner size and columns of the product of the last two matrices among these input shapes."""
    try:
        shapes = [shape for shape in json.loads(text) if isinstance(shape, list) and len(shape) in (2, 3)]
    except ValueError:
        return None
    if len(shapes) < 2 or not all(isinstance(size, int) for shape in shapes[-2:] for size in shape):
        return None
    left, right = shapes[-2:]
    return (left[-2], left[-1], right[-1]) if left[-1] == right[-2] else None
