"""Labels down the side, labels across the top, one quantity in the cells."""

from __future__ import annotations

import pytest

from taupy.errors import UsageError
from taupy.study.pivot_cells import Entry, by_size, natural, pivoted, relative_to

TIMES = [
    Entry(("alexnet", "neon"), ("K80",), 40.0),
    Entry(("alexnet", "neon"), ("P100",), 10.0),
    Entry(("vgg", "neon"), ("P100",), 7.0),
]


def test_values_stand_in_their_cells_and_absent_ones_are_empty():
    table = pivoted(TIMES)
    assert table.columns == [("K80",), ("P100",)]
    assert table.row(("alexnet", "neon")) == [40.0, 10.0]
    assert table.row(("vgg", "neon")) == [None, 7.0]


@pytest.mark.parametrize(
    ("across", "value"),
    [("median", 2.0), ("mean", 4.0), ("min", 1.0), ("max", 9.0), ("sum", 12.0), ("count", 3.0)],
)
def test_trials_that_meet_in_a_cell(across, value):
    entries = [Entry(("f",), ("x",), number) for number in (1.0, 9.0, 2.0)]
    table = pivoted(entries, across)
    assert table.row(("f",)) == [value]
    assert table.counts == {(("f",), ("x",)): 3}


def test_labels_are_ordered_as_people_count():
    labels = [("64",), ("8",), ("b",), ("16",), ("a10",), ("a9",), ("1.5",), ("",)]
    assert sorted(labels, key=natural) == [
        ("",), ("1.5",), ("8",), ("16",), ("64",), ("a9",), ("a10",), ("b",)
    ]  # fmt: skip


def test_relative_to_a_baseline():
    table, column = relative_to(pivoted(TIMES), "k80")
    assert column == ("K80",)
    assert table.row(("alexnet", "neon")) == [1.0, 0.25]
    assert table.row(("vgg", "neon")) == [None, None]  # nothing to be relative to


def test_a_baseline_that_is_none_says_which_there_are():
    with pytest.raises(UsageError, match=r"none of the columns \(K80, P100\); P100 is near"):
        relative_to(pivoted(TIMES), "P10O")
    with pytest.raises(UsageError, match="may be any of K80, P100"):
        relative_to(pivoted(TIMES), "0")


def test_rows_under_the_same_labels_by_size():
    entries = [Entry((app, f), ("x",), value) for app, f, value in
               [("a", "f", 1.0), ("a", "g", 9.0), ("a", "h", -5.0), ("b", "f", 2.0)]]  # fmt: skip
    table, left = by_size(pivoted(entries), 1, 2)
    assert table.rows == [("a", "g"), ("a", "h"), ("b", "f")]
    assert left == 1
