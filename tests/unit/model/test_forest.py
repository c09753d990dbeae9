"""Call paths as forests."""

from __future__ import annotations

from random import Random

from taupy.model import forest
from taupy.model.forest import callers_first, places_of
from tests.growth import is_linear


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
