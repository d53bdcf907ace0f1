import pytest

from lightning_perfwatch.trace import top_ops
from tests.trace.factories import op, phase, step, trace


def test_whole_events_need_no_partner() -> None:
    assert trace(step(1, 0, 9), op(0, 5)).left_out == ()


def test_begin_and_end_are_one_span() -> None:
    pair = [phase("B", "aten::mm", 3), phase("E", "aten::mm", 8)]
    recorded = trace(step(1, 0, 9), *pair)
    assert recorded.ops.start_us.tolist() == [3]
    assert recorded.ops.dur_us.tolist() == [5]
    assert recorded.left_out == ()


def test_nested_pairs_close_from_the_inside_and_ends_need_no_name() -> None:
    recorded = trace(
        phase("B", "outer", 0), phase("B", "inner", 2), {"ph": "E", "pid": 100, "tid": 100, "ts": 6}, phase("E", "", 10)
    )
    assert {total.name: round(total.self_s * 1e6) for total in top_ops(recorded)} == {"outer": 6, "inner": 4}


def test_threads_do_not_close_each_others_spans() -> None:
    recorded = trace(
        phase("B", "a", 0), phase("B", "b", 1, tid=7), phase("E", "a", 4), phase("E", "b", 9, tid=7), step(1, 0, 9)
    )
    assert sorted(recorded.ops.dur_us.tolist()) == [4, 8]


def test_pairs_keep_category_and_arguments_of_their_begin() -> None:
    begin = phase("B", "ProfilerStep#3", 0, cat="user_annotation")
    recorded = trace(begin, op(1, 2), {"ph": "E", "pid": 100, "tid": 100, "ts": 6})
    assert recorded.steps.numbers.tolist() == [3]


@pytest.mark.parametrize("stray", [phase("B", "open", 5), phase("E", "never begun", 5)])
def test_what_has_no_partner_is_left_out_and_said(stray: dict[str, object]) -> None:
    recorded = trace(step(1, 0, 9), op(0, 5), stray)
    assert len(recorded.ops) == 1
    assert recorded.left_out == ("1 events begin without an end, or end without a begin, and were left out.",)


def test_end_before_its_begin_is_absurd() -> None:
    recorded = trace(step(1, 0, 9), op(0, 5), phase("B", "a", 5), phase("E", "a", 2))
    assert recorded.left_out == ("1 events have a negative or absurdly long time and were left out.",)


def test_pair_without_times_is_left_out() -> None:
    recorded = trace(step(1, 0, 9), op(0, 5), phase("B", "a", 5) | {"ts": None}, phase("E", "a", 8))
    assert recorded.left_out == ("1 events have no usable start or duration and were left out.",)
