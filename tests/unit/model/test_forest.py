"""Call paths as forests."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from taupy.model import forest, table
from taupy.model.forest import callers_first, members, places_of, preorder, sums_by_key, taken
from taupy.model.table import numbered
from tests.growth import events_of, is_faster, is_linear


def test_each_row_comes_after_its_caller_wherever_that_is():
    assert [*callers_first([-1, 0, 0, 1])] == [0, 1, 2, 3]
    #        3 - 1 - 0, 3 - 2; 4
    assert [*callers_first([1, 3, 3, -1, -1])] == [3, 1, 0, 2, 4]


def test_rows_below_no_root_have_no_place_in_the_order():
    #        0 and 1 call each other, 2 is below them
    assert [*callers_first([1, 0, 1, -1, 3])] == [3, 4]


def test_a_chain_from_its_end_to_its_root_takes_linear_time():
    assert is_linear(lambda size: callers_first([*range(1, size), -1]), 10_000)


def test_the_rows_of_a_large_forest_by_depth_are_those_below_a_root(monkeypatch):
    monkeypatch.setattr(forest, "MANY", 1)
    monkeypatch.setattr(forest, "SHALLOW", 0)
    random = Random(3)
    for size in (1, 2, 7, 300):
        parent = [random.randrange(-1, size) for _ in range(size)]
        by_depth = [level.tolist() for level in forest.levels(parent)]
        depth_of = {row: depth for depth, rows in enumerate(by_depth) for row in rows}
        assert sorted(depth_of) == sorted(callers_first(parent))
        for row, depth in depth_of.items():
            assert depth == (depth_of[parent[row]] + 1 if parent[row] >= 0 else 0)


def test_a_deep_forest_is_not_taken_depth_by_depth():
    deep = range(-1, forest.MANY - 1)
    assert forest.levels(deep) == []


def test_names_have_the_same_places_among_many_as_among_few(monkeypatch):
    random = Random(5)
    for among in ([4], [0, -3, 9], random.sample(range(-999, 999), 400)):
        names = [None, 0, -1, *random.choices(range(-999, 999), k=900), *among]
        few = places_of(names, among)
        monkeypatch.setattr(forest, "MANY", 1)
        assert places_of(names, among) == few
        monkeypatch.undo()
        assert [among[place] for place in few if place >= 0] == [n for n in names if n in among]


class ReadByPython(array):
    """Each of its numbers that is not read in one piece, with the others, calls a function."""

    def __getitem__(self, at):
        return super().__getitem__(at)

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))


class HashedByPython(int):
    def __hash__(self):
        return super().__hash__()


_NUMBERS = range(300)
_COLUMN = ReadByPython("q", _NUMBERS)
_HASHED = list(map(HashedByPython, _NUMBERS))


@pytest.mark.parametrize(
    "work",
    [
        lambda: forest.ascending(_COLUMN),
        lambda: forest.parents_in(_COLUMN, array("q", [-1, *_NUMBERS[:-1]])),
        lambda: places_of(_HASHED, _HASHED),
    ],
    ids=["ascending", "parents_in", "places_of"],
)
def test_of_many_rows_none_takes_a_step_of_its_own(monkeypatch, work):
    monkeypatch.setattr(forest, "MANY", 1)
    work()  # imports NumPy
    assert events_of(work) < len(_NUMBERS)
    monkeypatch.setattr(forest, "MANY", 1 << 60)
    assert events_of(work) > len(_NUMBERS)


def test_a_large_forest_has_the_same_preorder_as_a_small_one(monkeypatch):
    random = Random(7)
    for size in (1, 2, 7, 300):
        for _ in range(9):
            parent = [random.randrange(-1, size) for _ in range(size)]
            order = random.sample(range(size), size)
            small = preorder(parent), preorder(parent, order)
            with monkeypatch.context() as patch:
                patch.setattr(forest, "MANY", 1)
                patch.setattr(forest, "SHALLOW", 0)
                assert (preorder(parent), preorder(parent, order)) == small


def test_many_keys_are_numbered_as_few_are_and_sooner(monkeypatch):
    random = Random(13)
    keys = array("q", random.choices(range(-(1 << 40), 1 << 40, 1 << 22), k=forest.MANY))
    keys.extend(random.choices(keys, k=3 * forest.MANY))

    def few():
        with monkeypatch.context() as patch:
            patch.setattr(table, "MANY", len(keys) + 1)
            return numbered(keys, size=len(keys))

    def many():
        return numbered(keys, size=len(keys))

    assert many() == few()
    assert is_faster(many, few, ratio=0.9)


def test_rows_of_long_columns_are_taken_as_those_of_short_ones(monkeypatch):
    for column in (array("q", [4, 1 << 62, -3]), array("d", [0.5, 2.0, 1e300])):
        few = taken(column, [2, 0, 0])
        assert few.tolist() == [column[2], column[0], column[0]]
        monkeypatch.setattr(forest, "MANY", 1)
        assert taken(column, [2, 0, 0]) == few
        monkeypatch.undo()


def test_each_key_has_the_sum_of_its_values():
    assert sums_by_key([2, 1, 0, 2, 2, 0], 4, [0.5] * 6) == [1.0, 0.5, 1.5, 0]
    assert sums_by_key([1, 1], 2, array("q", [1 << 62] * 2)) == [0, 1 << 63]


def test_rows_have_the_same_positions_among_many_as_among_few(monkeypatch):
    keys = [2, -1, 0, 2, 2, 0]
    positions = members(keys, 4)
    assert [positions(key) for key in range(4)] == [[2, 5], [], [0, 3, 4], []]
    monkeypatch.setattr(forest, "MANY", 1)
    assert [*map(members(keys, 4), range(4))] == [*map(positions, range(4))]


_ROWS = 200_000


@pytest.fixture(scope="module")
def scattered() -> tuple[array[int], list[int]]:
    """A tree of two callees each whose rows are in no order, as those of a database, and an order
    of these."""
    random = Random(11)
    rows = random.sample(range(_ROWS), _ROWS)
    parent = array("q", [-1] * _ROWS)
    for at in range(1, _ROWS):
        parent[rows[at]] = rows[(at - 1) // 2]
    return parent, random.sample(range(_ROWS), _ROWS)


def _members(parent: array[int], _: list[int]) -> None:
    members(parent, len(parent))


@pytest.mark.parametrize("work", [preorder, taken, _members])
def test_many_rows_take_less_time_with_numpy(work, scattered, monkeypatch):
    parent, order = scattered

    def without_numpy():
        with monkeypatch.context() as patch:
            patch.setattr(forest, "MANY", _ROWS + 1)
            work(parent, order)

    assert is_faster(lambda: work(parent, order), without_numpy, ratio=0.9)
