"""Call paths of a thread: what becomes one, and what becomes its caller."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taupy.record import rows as steps
from taupy.record.rows import Rows, folded, merged, merged_in_order, whole_and_own

MAIN, F, G, RANGE = 0, 1, 2, 3


def rows_of(*table: tuple[int, int, int, int, int]) -> Rows:
    """Rows of (timer, parent, calls, resumes, inclusive)."""
    columns = [np.array(column, "i8") for column in zip(*table, strict=True)]
    return Rows(*columns, {"cpu_time": columns[4] * 2}, None)


def told(rows: Rows) -> list[tuple[int, ...]]:
    columns = (rows.timer, rows.parent, rows.calls, rows.resumes, rows.inclusive)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_equal_call_paths_become_one_with_all_below_them():
    rows = rows_of(
        (MAIN, -1, 1, 0, 100),
        (F, 0, 1, 0, 10),
        (F, 0, 2, 0, 20),
        (G, 1, 3, 0, 5),
        (G, 2, 4, 1, 6),
        (F, 3, 1, 0, 1),
        (F, 4, 1, 0, 2),
    )
    once, into = merged(rows, 4)
    assert told(once) == [
        (MAIN, -1, 1, 0, 100),
        (F, 0, 3, 0, 30),
        (G, 1, 7, 1, 11),
        (F, 2, 2, 0, 3),
    ]
    assert into.tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert once.further["cpu_time"].tolist() == [200, 60, 22, 6]


def test_library_code_that_library_code_calls_is_part_of_its_caller():
    rows = rows_of(
        (MAIN, -1, 1, 0, 100),
        (F, 0, 1, 0, 50),  # library, called by the program: stays
        (G, 1, 9, 0, 40),  # library, called by library: goes
        (F, 2, 9, 0, 30),
        (RANGE, 3, 1, 0, 20),  # the program's, called back: stays
    )
    kept, into = folded(rows, [False, True, True, False])
    assert told(kept) == [(MAIN, -1, 1, 0, 100), (F, 0, 1, 0, 50), (RANGE, 1, 1, 0, 20)]
    assert into.tolist() == [0, 1, 1, 1, 2]


def test_a_range_that_went_on_elsewhere_leaves_no_row():
    rows = rows_of((MAIN, -1, 1, 0, 100), (RANGE, 0, 0, 1, 7), (F, 1, 2, 0, 5))
    kept, into = merged_in_order(rows, 4, frozenset({RANGE}))
    assert told(kept) == [(MAIN, -1, 1, 0, 100), (F, 0, 2, 0, 5)]
    assert into.tolist() == [0, 0, 1]


def test_a_parent_that_was_cut_off_gets_the_values_of_its_children():
    whole, own = whole_and_own(np.array([5, 3, 9]), np.array([-1, 0, 1]))
    assert (whole.tolist(), own.tolist()) == ([9, 9, 9], [0, 0, 9])


@st.composite
def trees(draw: st.DrawFn) -> Rows:
    size = draw(st.integers(1, 40))
    table = [(MAIN, -1, 1, 0, 9)]
    for row in range(1, size):
        parent = draw(st.integers(max(0, row - draw(st.sampled_from([1, 40]))), row - 1))
        table.append((draw(st.integers(1, 3)), parent, *draw(st.tuples(*[st.integers(0, 9)] * 3))))
    return rows_of(*table)


@given(trees(), st.sampled_from([1, 2, 64]))
def test_whole_columns_merge_as_rows_one_by_one_do(rows, rounds):
    """However deep: with few rounds, the rows are taken one by one."""
    before, steps._ROUNDS = steps._ROUNDS, rounds
    try:
        fast, into = merged(rows, 4)
    finally:
        steps._ROUNDS = before
    slow, slowly = merged_in_order(rows, 4, frozenset())
    assert told(fast) == told(slow)
    assert into.tolist() == slowly.tolist()
    assert fast.further["cpu_time"].tolist() == slow.further["cpu_time"].tolist()
