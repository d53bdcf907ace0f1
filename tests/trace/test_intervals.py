import numpy as np
import pytest

from lightning_perfwatch.trace.intervals import (
    Floats,
    clip,
    covered_before,
    divided_lengths,
    intersect,
    subtract,
    total,
    union,
)


def rows(*pairs: tuple[float, float]) -> Floats:
    return np.array(pairs, np.float64).reshape(-1, 2)


def test_nothing_stays_nothing() -> None:
    assert union(rows()).shape == (0, 2)
    assert total(rows()) == 0.0
    assert len(intersect(rows(), rows((0, 1)))) == 0
    assert len(subtract(rows(), rows((0, 1)))) == 0
    assert len(clip(rows(), 0, 1)) == 0


def test_disjoint_intervals_keep_their_bounds() -> None:
    np.testing.assert_array_equal(union(rows((4, 5), (0, 1))), rows((0, 1), (4, 5)))


def test_overlapping_nested_and_touching_intervals_become_one() -> None:
    np.testing.assert_array_equal(union(rows((0, 10), (1, 2), (9, 12), (12, 13))), rows((0, 13)))


def test_empty_and_reversed_rows_are_nothing() -> None:
    assert len(union(rows((3, 3), (5, 4)))) == 0


def test_intersect_of_intervals_that_only_touch_is_empty() -> None:
    assert len(intersect(rows((0, 1)), rows((1, 2)))) == 0


def test_subtract_leaves_the_edges() -> None:
    np.testing.assert_array_equal(subtract(rows((0, 10)), rows((2, 3), (9, 20))), rows((0, 2), (3, 9)))
    np.testing.assert_array_equal(subtract(rows((0, 10)), rows()), rows((0, 10)))


def test_covered_before_counts_the_union_up_to_each_time() -> None:
    covered = covered_before(rows((1, 3), (2, 4), (6, 7)), np.array([0.0, 1.0, 2.5, 5.0, 6.5, 9.0]))
    np.testing.assert_allclose(covered, [0, 0, 1.5, 3, 3.5, 4])


@pytest.mark.parametrize("seed", range(20))
def test_algebra_agrees_with_a_raster(seed: int) -> None:
    """On whole numbers every interval is a set of unit cells, so Python's sets are the truth."""
    generator = np.random.default_rng(seed)

    def random_rows() -> Floats:
        start = generator.integers(0, 60, generator.integers(0, 12))
        return np.column_stack((start, start + generator.integers(0, 9, len(start)))).astype(np.float64)

    def cells(intervals: Floats) -> set[int]:
        return {cell for start, end in intervals for cell in range(int(start), int(end))}

    a, b = random_rows(), random_rows()
    for result, truth in (
        (union(a), cells(a)),
        (intersect(a, b), cells(a) & cells(b)),
        (subtract(a, b), cells(a) - cells(b)),
        (clip(a, 10, 40), cells(a) & set(range(10, 40))),
    ):
        assert cells(result) == truth
        assert total(result) == len(truth)
        assert np.all(result[1:, 0] > result[:-1, 1]), "a union has gaps between its rows"


def test_divided_lengths_add_up_to_the_union() -> None:
    assert divided_lengths(rows()).tolist() == []
    assert divided_lengths(rows((0, 4), (2, 4), (10, 11), (3, 3))).tolist() == [3.0, 1.0, 1.0, 0.0]
    many = np.random.default_rng(1).random((200, 2)).cumsum(axis=1)
    assert divided_lengths(many).sum() == pytest.approx(total(union(many)))
