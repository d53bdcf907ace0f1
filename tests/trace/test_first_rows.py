"""The first row of an id, by table and by search, against asking one by one."""

import numpy as np
import pytest

from lightning_perfwatch.trace.first_rows import FirstRows

FAR_APART = 10**12


@pytest.mark.parametrize("factor", [1, 3, FAR_APART])
def test_first_row_of_each_id(factor: int) -> None:
    generator = np.random.default_rng(0)
    ids = generator.integers(-2, 40, 60) * factor
    asked = np.append(np.arange(-3, 45) * factor, [np.iinfo(np.int64).max, 1])

    found = FirstRows.of(ids).rows(asked)

    rows = {int(number): row for row, number in reversed(list(enumerate(ids))) if number > 0}
    assert found.tolist() == [rows.get(int(number), -1) for number in asked]


def test_far_ids_need_no_long_table() -> None:
    assert FirstRows.of(np.array([1, FAR_APART])).table is None


@pytest.mark.parametrize("ids", [[], [0, -1, 0]])
def test_no_id_has_no_row(ids: list[int]) -> None:
    assert FirstRows.of(np.array(ids, np.int64)).rows(np.array([-1, 0, 1, 7])).tolist() == [-1, -1, -1, -1]
