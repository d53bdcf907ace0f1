from __future__ import annotations

import numpy as np
import pytest

from lightning_perfwatch.trace import op_costs
from lightning_perfwatch.trace.chains import Chain, chains
from tests.trace.factories import op, step, trace


def found(*names: str, least_ops: int = 3, apart: str = "", tids: tuple[int, ...] = ()) -> list[Chain]:
    """The chains among calls with these names, one after the other."""
    tids = tids or (100,) * len(names)
    events = [op(10 * at, 8, f"aten::{name}", tid=tid) for at, (name, tid) in enumerate(zip(names, tids, strict=True))]
    costs = op_costs(trace(step(1, 0, 1000), *events))
    return chains(costs, least_ops, costs.named(f"aten::{apart}".__eq__))


def test_a_chain_ends_where_another_operator_is_called() -> None:
    (chain,) = found("mul", "add", "tanh", "addmm", "mul", "add")
    assert chain.names == ("mul", "add", "tanh")
    assert chain.num_calls == 1
    assert len(chain.calls) == 3


def test_equal_chains_are_counted_together_and_in_place_is_the_same() -> None:
    (chain,) = found("mul", "add", "exp", "addmm", "mul_", "add_", "exp_")
    assert chain.num_calls == 2
    assert len(chain.calls) == 6


@pytest.mark.parametrize("between", ["view", "to", "transpose"])
def test_views_between_belong_to_it_but_make_none(between: str) -> None:
    (chain,) = found(between, "mul", between, "add", "exp", between)
    assert chain.names == ("mul", "add", "exp")
    assert len(chain.calls) == 4
    assert found(*[between] * 5) == []


def test_too_short_ones_others_rules_operators_and_other_threads_break_it() -> None:
    assert found("mul", "add") == []
    assert found("mul", "add", "exp", "mul", apart="exp") == []
    assert found("mul", "add", "exp", tids=(1, 1, 2)) == []
    assert found() == []


def test_what_runs_inside_of_a_link_belongs_to_it() -> None:
    events = [op(0, 8, "aten::mul"), op(10, 8, "aten::add"), op(20, 80, "aten::where"), op(30, 50, "aten::copy_")]
    costs = op_costs(trace(step(1, 0, 1000), *events))
    (chain,) = chains(costs, 3, np.zeros(4, np.bool_))
    assert chain.us == 96
    assert int(chain.rows(costs).sum()) == 4


def test_it_ends_with_its_step() -> None:
    events = [op(10 * at, 8, "aten::mul") for at in range(8)]
    costs = op_costs(trace(step(1, 0, 40), step(2, 40, 40), *events))
    (chain,) = chains(costs, 3, np.zeros(8, np.bool_))
    assert (chain.names, chain.num_calls) == (("mul",) * 4, 2)
