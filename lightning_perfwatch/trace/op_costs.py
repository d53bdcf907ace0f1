"""What the operators of a trace cost, one by one, with what runs inside them and what belongs to them in the backward
pass. Reads a `Trace`; knows no rule and no threshold.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightning_perfwatch.trace.columns import BACKWARD, Bools, Ints, Spans
from lightning_perfwatch.trace.intervals import Floats, divided_lengths
from lightning_perfwatch.trace.nesting import enclosing
from lightning_perfwatch.trace.optimizer_time import optimizer_spans
from lightning_perfwatch.trace.trace import Trace
from lightning_perfwatch.trace.window import window_of

_NODE = re.compile(rf"(?:{BACKWARD})?(\w+?)Backward(?:\d+|All)?$")


@dataclass(frozen=True, eq=False)
class OpCosts:
    """The cost of each row of `Trace.ops` inside the complete steps (in all of a trace without steps), `us`.

    `clock` says what it is: "device", the work that the operator itself launched, where the trace has kernels: of an
    instant in which several streams or devices work each piece of work counts for its part. Else "host", its self time.
    Shares are of the window, see `window.window_of`.
    """

    trace: Trace
    us: Floats
    window_us: float
    clock: str

    def share(self, rows: Bools) -> float:
        """What these operators themselves cost, as a share (0..1) of the window."""
        return self.share_of_us(float(self.us[rows].sum()))

    def share_of_us(self, us: float) -> float:
        """A cost in microseconds as a share (0..1) of the window; 0 for a window of no length."""
        return min(1.0, us / self.window_us) if self.window_us > 0 else 0.0

    def kernels_us(self, rows: Bools) -> float:
        """What these rows of `Trace.kernels` cost, each instant divided among the work that runs then."""
        return float(self._kernel_us[rows].sum()) if rows.any() else 0.0

    @cached_property
    def _kernel_us(self) -> Floats:
        return divided_lengths(self.trace.device_work.intervals)[: len(self.trace.kernels)]

    def named(self, wanted: Callable[[str], bool]) -> Bools:
        """Mask of the operators whose name is wanted."""
        return self.trace.matching(self.trace.ops, wanted)

    @property
    def parent(self) -> Ints:
        """For each operator the row of the one around it on its thread, -1 for the outermost."""
        return self.trace.op_parents

    def inside(self, outer: Bools) -> Bools:
        """Mask of these operators and of all that run inside them."""
        inner = outer.copy()
        if outer.any():
            for rows, around in self._levels:
                inner[rows] |= outer[around]
        return inner

    @cached_property
    def _levels(self) -> list[tuple[Ints, Ints]]:
        """Operators and those around them, level by level of nesting: first their parents, then the parents' …"""
        levels = []
        rows = np.flatnonzero(self.parent >= 0)
        around = self.parent[rows]
        while len(rows):
            levels.append((rows, around))
            around = self.parent[around]
            rows, around = rows[around >= 0], around[around >= 0]
        return levels

    def within(self, spans: Spans) -> Bools:
        """Mask of the operators that began inside one of these spans, on the span's thread."""
        return np.asarray(enclosing(spans, self.trace.ops.tid, self.trace.ops.start_us) >= 0)

    @cached_property
    def in_backward(self) -> Bools:
        """Mask of the operators of the backward pass."""
        return self.inside(self.named(lambda name: name.startswith(BACKWARD)))

    @cached_property
    def optimizer(self) -> Spans:
        """The optimizers' own parts."""
        return optimizer_spans(self.trace)

    @cached_property
    def in_forward(self) -> Bools:
        """Mask of the operators that are of no backward pass, no optimizer and no data loader."""
        zeroing = self.trace.annotations.take(self.trace.named(self.trace.annotations, "Optimizer.zero_grad#"))
        others = self.within(self.optimizer) | self.within(zeroing) | self.within(self.trace.dataloader)
        return ~self.in_backward & ~others

    @cached_property
    def calls(self) -> Ints:
        """The rows of the forward operators that no other operator called, by thread and time."""
        ops = self.trace.ops
        rows = np.flatnonzero((self.parent < 0) & self.in_forward)
        return np.asarray(rows[np.lexsort((ops.start_us[rows], ops.tid[rows]))])

    def backward_us(self, forward: Bools) -> Floats:
        """For each operator what of its cost belongs to the backward of these forward operators.

        A node of the backward pass is named after the operator that it belongs to. Of all nodes of a name these get
        the part that their operators have in the forward cost of that name.
        """
        of_op, used, cost, everything = self._by_node_name
        mine = np.bincount(of_op[used & forward], cost[used & forward], len(everything))
        part = np.divide(mine, everything, out=np.zeros(len(everything)), where=everything > 0)
        node = self._node_of
        return np.where(node >= 0, part[of_op[node]] * self.us, 0.0)

    @cached_property
    def _by_node_name(self) -> tuple[Ints, Bools, Floats, Floats]:
        """For each operator the number of its name as nodes have it, whether it counts and its cost; their sums."""
        keys = [_key(name) for name in self.trace.names]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        of_op = np.array([numbers[key] for key in keys], np.int64)[self.trace.ops.name]
        used = self.in_forward & ~np.isin(of_op, [numbers[key] for key in _NOT_DIFFERENTIATED & numbers.keys()])
        cost = self.inclusive(self.us + 1e-6)  # operators that launched nothing count by their number
        sums: Floats = np.bincount(of_op[used], cost[used], len(numbers)).astype(np.float64)
        return of_op, used, cost, sums

    @cached_property
    def _node_of(self) -> Ints:
        """For each operator the outermost node of the backward pass that it runs in, or -1."""
        is_node = self.named(lambda name: name.startswith(BACKWARD))
        found: Ints = np.where(is_node, np.arange(len(is_node)), -1)
        for rows, around in self._levels:
            is_inside = is_node[around]
            found[rows[is_inside]] = around[is_inside]
        return found

    def inclusive(self, cost: Floats) -> Floats:
        """For each operator the cost of itself and of all that run inside it."""
        total = cost.copy()
        for rows, around in self._levels:
            total += np.bincount(around, cost[rows], len(total))
        return total


def op_costs(trace: Trace) -> OpCosts:
    """The costs of the operators; on the device's clock where the trace has kernels, else on the host's."""
    window_us = window_of(trace).dur_us
    if not len(trace.kernels):
        counted = _in_steps(trace, trace.ops.start_us)
        return OpCosts(trace, np.where(counted, trace.ops.self_us, 0.0), window_us, "host")
    work = trace.device_work
    work = work.take(_in_steps(trace, trace.launched_us(work)))
    rows = trace.launching_ops(work)
    known = rows >= 0
    us = np.bincount(rows[known], divided_lengths(work.intervals)[known], len(trace.ops))
    return OpCosts(trace, us.astype(np.float64), window_us, "device")


def _in_steps(trace: Trace, times_us: Floats) -> Bools:
    if len(trace.steps) == 0:
        return np.ones(len(times_us), np.bool_)
    return np.asarray(trace.steps.index_of(times_us) >= 0, dtype=np.bool_)


_NOT_DIFFERENTIATED = frozenset(("empty", "emptylike", "emptystrided", "resolveconj", "scalartensor", "fill"))


def _key(name: str) -> str:
    """The same for an operator and for its node: "aten::_softmax", "SoftmaxBackward0" -> "softmax"."""
    node = _NODE.match(name)
    return (node[1] if node else name.removeprefix("aten::")).replace("_", "").lower()
