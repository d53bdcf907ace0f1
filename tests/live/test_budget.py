"""What is given up for the budget, and what is not."""

from __future__ import annotations

from lightning_perfwatch.live.budget import MOST_STRIDE, Budget


def test_without_a_limit_everything_is_affordable() -> None:
    budget = Budget(None)
    budget.add_steps(10.0, 9.0)

    assert all(budget.begins_window(100.0 * num, is_asked=num == 0) for num in range(5))
    assert budget.stride == 1
    assert budget.notes() == []


def test_the_first_window_is_never_left_out_and_never_counts() -> None:
    budget = Budget(0.01)
    budget.add_steps(0.5, 0.0)

    assert budget.begins_window(0.0, is_asked=True)
    budget.add_steps(9.5, 0.0)
    assert budget.begins_window(0.1, is_asked=False)  # 100 ms of the 100 ms that 1 % of 10 s are
    assert budget.notes() == []


def test_a_repeated_window_waits_for_the_training_that_pays_for_it_and_the_earlier_ones() -> None:
    budget = Budget(0.01)
    budget.add_steps(10.0, 0.0)

    assert budget.begins_window(0.0, is_asked=True)
    assert budget.begins_window(0.06, is_asked=False)
    assert not budget.begins_window(0.12, is_asked=False)  # 60 ms are spent on the second one, and 40 ms are left
    budget.add_steps(2.0, 0.0)
    assert budget.begins_window(0.12, is_asked=False)
    assert budget.num_left_out == 1
    assert budget.notes() == [
        "1 further window was left out: one takes 60 ms, and after 10.0 s of training "
        "max_overhead_share=0.01 left 40 ms for it"
    ]


def test_a_window_on_request_is_never_left_out_and_takes_no_room_from_others() -> None:
    budget = Budget(0.01)
    budget.add_steps(6.0, 0.0)

    assert [budget.begins_window(0.06 * num, is_asked=True) for num in range(5)] == [True] * 5
    assert budget.begins_window(0.30, is_asked=False)
    assert not budget.begins_window(0.36, is_asked=False)
    assert budget.begins_window(0.36, is_asked=True)


def test_hooks_that_cost_too_much_are_halved_until_they_do_not() -> None:
    budget = Budget(0.01)
    strides = []
    for hooks_s in (0.03, 0.02, 0.009, 0.009):
        budget.add_steps(1.0, hooks_s)
        strides.append(budget.stride)

    assert strides == [2, 4, 4, 4]
    assert budget.notes() == [
        "PerfWatch's hooks took 3.0 % of the training time and max_overhead_share=0.01 allows less: only every 4th "
        "time that it is due it logs its metrics and reads the device's clock"
    ]


def test_hooks_that_stay_too_expensive_are_not_given_up() -> None:
    budget = Budget(0.01)
    for _ in range(20):
        budget.add_steps(1.0, 0.5)

    assert budget.stride == MOST_STRIDE


def test_hooks_are_judged_over_a_second_and_not_by_what_happens_once() -> None:
    budget = Budget(0.01)
    budget.add_steps(0.6, 0.5)
    assert budget.stride == 1
    budget.start_over()
    budget.add_steps(0.6, 0.001)
    budget.add_steps(0.6, 0.001)

    assert budget.stride == 1
    assert budget.notes() == []
