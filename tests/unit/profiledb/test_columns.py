"""Large trees go into the database as whole columns, small ones row by row: the same rows."""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random

import pytest

from taupy.model import invariants
from taupy.model.profile import UserEvent
from taupy.profiledb import columns
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import timer_ids
from taupy.profiledb.prepared_forest import PreparedForest, forests_of, prepared
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import INVARIANTS, add_profile
from tests.builders import wide_profile
from tests.growth import events_of

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


def test_a_large_thread_takes_no_call_for_each_of_its_rows(monkeypatch):
    profile = wide_profile(3_000)
    timers = timer_ids(profile.timers)

    def prepare():
        (ready,) = prepared(forests_of(profile.threads), timers)
        return ready

    prepare()  # imports NumPy
    assert events_of(prepare) < 3_000
    monkeypatch.setattr(columns, "ROWS", 1 << 60)
    assert events_of(prepare) > 3_000


def test_numbers_whose_sum_has_no_room_go_the_other_way():
    tree = wide_profile(3_000).threads[0].tree
    tree.inclusive["time"][5] = 1 << 62
    assert not columns.wide(tree)


@pytest.mark.parametrize("column", ["parent", "calls", "subroutines", "timer", "inclusive"])
def test_a_tree_that_breaks_a_law_is_not_lawful(column):
    profile = wide_profile(3_000)
    tree = profile.threads[0].tree
    assert columns.lawful(tree, len(profile.timers), [0]) and not invariants.check(profile)
    changed = tree.inclusive["time"] if column == "inclusive" else getattr(tree, column)
    changed[7] = -2
    assert not columns.lawful(tree, len(profile.timers), [0]) and invariants.check(profile)


@pytest.mark.parametrize("column", ["parent", "calls", "subroutines", "timer", "inclusive"])
@pytest.mark.parametrize("value", [-2, -1, 0, 1 << 40])
def test_one_unlawful_tree_among_many_is_named(column, value):
    profile = distinct(small_threads(200))
    tree = profile.threads[130].tree
    changed = tree.inclusive["time"] if column == "inclusive" else getattr(tree, column)
    kept = changed[1]
    assert known_lawful(profile) == [True] * 200
    changed[1] = value
    broken = invariants.check(profile)
    assert bool(broken) is (kept != value and (column, value) != ("timer", 0))
    assert all(fault.startswith("thread 0.0.130: ") for fault in broken)
    assert invariants.check(profile, known_lawful(profile)) == broken
    assert all(known_lawful(profile)) is not bool(broken)


def test_columns_of_unequal_length_do_not_make_up_for_each_other():
    profile = distinct(small_threads(200))
    long, short = (profile.threads[number].tree.calls for number in (100, 101))
    long.append(short.pop())
    broken = invariants.check(profile)
    assert len(broken) == 2
    assert invariants.check(profile, known_lawful(profile)) == broken


def known_lawful(profile):
    forests = forests_of(profile.threads)
    return [known for forest in forests for known in forest.are_lawful(len(profile.timers))]


def test_lawful_threads_are_not_checked_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(invariants, "_value_faults", lambda *_, **__: ["looked at"])
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        trial = add_profile(db, distinct(small_threads(200)))
        assert INVARIANTS not in read_profile(db, trial).metadata


def small_threads(count: int, rows: int = 40):
    """A profile whose threads have partly equal call paths, events, and recursion."""
    profiles = [wide_profile(1 + number % rows, 60, thread=number) for number in range(count)]
    profile = profiles[0]
    profile.threads = [measured for other in profiles for measured in other.threads]
    for number, measured in enumerate(profile.threads):
        for row in range(len(measured.tree)):
            measured.tree.timer[row] %= 7 + number % 3
        if number % 5 == 0:
            event = UserEvent("bytes", "B", 1, 2.0, 2.0, 2.0, 4.0, row=len(measured.tree) - 1)
            measured.user_events.append(event)
    return profile


def as_forests(monkeypatch) -> list[int]:
    """Sizes of the forests of several threads that are made; 0 for one that is not."""
    sizes: list[int] = []
    prepare = PreparedForest.of

    def of(forest, timers):
        ready = prepare(forest, timers)
        if len(forest.measured) > 1:
            sizes.append(len(forest.measured) if ready else 0)
        return ready

    monkeypatch.setattr(PreparedForest, "of", of)
    return sizes


def distinct(profile):
    """The profile without rows of equal call paths in a thread, which are processed alone."""
    for measured in profile.threads:
        for row in range(1, len(measured.tree)):
            measured.tree.timer[row] = measured.tree.timer[row] // 2 * 2 + row % 2
    return profile


def test_small_threads_in_one_go_store_what_each_alone_stores(tmp_path, monkeypatch):
    sizes = as_forests(monkeypatch)
    everything = (*TABLES, "thread", "user_event_value", "metadata")
    monkeypatch.setattr("tests.unit.profiledb.test_columns.TABLES", everything)
    fast = tables(tmp_path / "fast.db", distinct(small_threads(200)))
    assert sizes == [200]
    monkeypatch.setattr(columns, "ROWS", 1 << 60)
    assert tables(tmp_path / "slow.db", distinct(small_threads(200))) == fast
    assert sizes == [200, 0]
    assert len(fast["thread"]) == 200 and len(fast["user_event_value"]) == 40
    assert len(fast["call"]) == sum(1 + number % 40 for number in range(200))


def test_threads_that_differ_in_kind_or_metrics_or_repeat_paths_go_alone(tmp_path, monkeypatch):
    sizes = as_forests(monkeypatch)
    profile = small_threads(200)  # with equal call paths
    stream, counted = profile.threads[70], profile.threads[140]
    stream.thread = replace(stream.thread, kind="stream")
    for columns_of in (counted.tree.inclusive, counted.tree.exclusive):
        columns_of["loads"] = columns_of["time"][:]
    fast = tables(tmp_path / "fast.db", profile)
    assert sizes == [0, 0, 0]  # before, between and behind the two
    monkeypatch.setattr("taupy.profiledb.prepared_forest._AT_MOST", 0)
    assert tables(tmp_path / "slow.db", profile) == fast
    assert len(sizes) == 3


def test_a_node_that_is_stored_already_leaves_the_forest(tmp_path):
    profile = distinct(small_threads(200))
    for number, measured in enumerate(profile.threads):
        measured.thread = replace(measured.thread, node=number % 2)
    first = replace(profile, threads=[m for m in profile.threads if m.thread.node == 0])
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        trial = add_profile(db, first)
        assert add_profile(db, profile) == trial
        assert db.rows("SELECT node, count(*) FROM thread GROUP BY node") == [(0, 100), (1, 100)]
    with ProfileDB.open(tmp_path / "b.db", create=True) as db:
        add_profile(db, profile)
        again = sorted(db.rows("SELECT callpath_id, calls FROM call"))
    with ProfileDB.open(tmp_path / "a.db") as db:
        assert sorted(db.rows("SELECT callpath_id, calls FROM call")) == again


def test_many_threads_take_about_the_statements_of_one_with_their_rows(tmp_path):
    many = small_threads(3_000, 1)
    for measured in many.threads:
        measured.user_events.clear()
    counts = []
    for number, profile in enumerate((wide_profile(3_000), many)):
        statements: list[str] = []
        with ProfileDB.open(tmp_path / f"{number}.db", create=True) as db:
            db.connection.set_trace_callback(statements.append)
            add_profile(db, profile)
        counts.append(len(statements))
    assert counts[1] < 2 * counts[0]
