"""Large trees go into the database as whole columns, small ones row by row: the same rows."""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random

import pytest

from taupy.model import invariants
from taupy.profiledb import columns
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import wide_profile

TABLES = ("callpath", "call", "interval_value", "timer_call", "timer_value", "thread_metric")


def tables(path, profile) -> dict[str, list[tuple]]:
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
        return {table: sorted(map(repr, db.rows(f"SELECT * FROM {table}"))) for table in TABLES}


@pytest.mark.parametrize("shape", ["distinct", "recursive", "deep", "stream"])
def test_whole_columns_store_what_rows_store(tmp_path, monkeypatch, shape):
    profile = wide_profile(3_000)
    (measured,) = profile.threads
    tree, random = measured.tree, Random(1)
    if shape != "distinct":
        for row in range(1, len(tree)):
            tree.timer[row] = random.randrange(1, 9)
    if shape == "deep":
        for row in range(1, len(tree)):
            tree.parent[row] = row - 1
    if shape == "stream":  # timers that are launch sites only are not in the flat profile
        measured.thread = replace(measured.thread, kind="stream")
        tree.subroutines = array("q", [0] * len(tree))
        for row in range(1, len(tree)):
            tree.calls[row] *= tree.timer[row] % 2
            tree.subroutines[tree.parent[row]] += tree.calls[row]
    assert columns.wide(tree)
    fast = tables(tmp_path / "fast.db", profile)
    monkeypatch.setattr(columns, "ROWS", 1 << 60)
    assert not columns.wide(tree)
    assert tables(tmp_path / "slow.db", profile) == fast
    assert len(fast["call"]) > 1000
    launching = {tree.timer[row] for row in range(len(tree)) if not tree.calls[row]}
    assert bool(launching) is (shape == "stream")
    assert len(fast["timer_call"]) == len({*tree.timer} - launching)


def test_numbers_whose_sum_has_no_room_go_the_other_way():
    tree = wide_profile(3_000).threads[0].tree
    tree.inclusive["time"][5] = 1 << 62
    assert not columns.wide(tree)


@pytest.mark.parametrize("column", ["parent", "calls", "subroutines", "timer", "inclusive"])
def test_a_tree_that_breaks_a_law_is_not_lawful(column):
    profile = wide_profile(3_000)
    tree = profile.threads[0].tree
    assert columns.lawful(tree, len(profile.timers)) and not invariants.check(profile)
    changed = tree.inclusive["time"] if column == "inclusive" else getattr(tree, column)
    changed[7] = -2
    assert not columns.lawful(tree, len(profile.timers)) and invariants.check(profile)
