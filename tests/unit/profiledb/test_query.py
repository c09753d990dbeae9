"""Questions to a trial, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from taupy.errors import MissingMetric, NoSuchTrial
from taupy.model.answer import flat_rows, tree_rows
from taupy.model.profile import Metric, Timer
from taupy.model.rows import EventRow, FlatRow, ThreadRow
from taupy.profiledb import metrics, query
from taupy.profiledb.writer import add_profile
from tests.builders import call, deep_profile, event, host, profile_of, small_profile


@pytest.fixture
def trial(db):
    return add_profile(db, small_profile())


def test_a_flat_profile_comes_by_thread_and_inclusive(db, trial):
    main, f, g = "<module> [{app.py}{1}]", "f [{app.py}{3}]", "g [{app.py}{9}]"
    assert flat_rows(metrics.flat_profile(db, trial)) == [
        FlatRow(0, 0, 0, main, "<module>", "app.py", 1, "PYTHON", 1, 7, 150, 10),
        FlatRow(0, 0, 0, f, "f", "app.py", 3, "PYTHON|USER", 5, 7, 90, 50),
        FlatRow(0, 0, 0, g, "g", "app.py", 9, "PYTHON", 9, 0, 90, 90),
        FlatRow(0, 0, 1, main, "<module>", "app.py", 1, "PYTHON", 1, 1, 12, 5),
        FlatRow(0, 0, 1, g, "g", "app.py", 9, "PYTHON", 1, 0, 7, 7),
    ]


def test_a_call_tree_comes_with_parents_first_and_large_children_first(db, trial):
    rows = tree_rows(metrics.call_tree(db, trial, threads=[(0, 0, 0)]))
    assert [
        (r.depth, r.short_name, r.calls, r.subroutines, r.inclusive, r.exclusive) for r in rows
    ] == [
        (0, "<module>", 1, 7, 150, 10),
        (1, "f", 2, 7, 90, 20),
        (2, "g", 4, 0, 40, 40),
        (2, "f", 3, 0, 30, 30),
        (1, "g", 5, 0, 50, 50),
    ]
    by_id = {row.callpath_id: row for row in rows}
    parents = [by_id[row.parent_id].short_name if row.parent_id else None for row in rows]
    assert parents == [None, "<module>", "f", "f", "<module>"]


def test_a_call_tree_of_all_threads_comes_thread_by_thread(db, trial):
    rows = tree_rows(metrics.call_tree(db, trial))
    assert [(row.thread, row.short_name) for row in rows] == [
        *[(0, name) for name in ("<module>", "f", "g", "f", "g")],
        (1, "<module>"),
        (1, "g"),
    ]
    # The same call path has the same id on every thread.
    assert rows[5].callpath_id == rows[0].callpath_id
    assert rows[6].callpath_id == rows[4].callpath_id


def test_a_call_tree_of_another_metric(db, trial):
    rows = tree_rows(metrics.call_tree(db, trial, "misses"))
    assert [(row.short_name, row.inclusive, row.exclusive) for row in rows] == [
        ("<module>", 15, 0),
        ("g", 8, 8),
        ("f", 7, 4),
        ("g", 2, 2),
        ("f", 1, 1),
    ]


def test_a_call_tree_without_what_is_small_or_deep(db, trial):
    def names(**limits):
        tree = metrics.call_tree(db, trial, threads=[(0, 0, 0)], **limits)
        return [row.short_name for row in tree_rows(tree)]

    assert names(least=50) == ["<module>", "f", "g"]
    assert names(least=40) == ["<module>", "f", "g", "g"]
    assert names(deepest=1) == ["<module>", "f", "g"]
    assert names(deepest=0) == ["<module>"]
    assert names(least=151) == []


def test_a_thread_that_is_not_there_is_an_error_that_names_those_there_are(db, trial):
    with pytest.raises(NoSuchTrial, match=r"no thread 0\.0\.7 \(it has: 0\.0\.0, 0\.0\.1\)"):
        tree_rows(metrics.call_tree(db, trial, threads=[(0, 0, 7)]))


@pytest.mark.parametrize("question", [metrics.flat_profile, metrics.call_tree])
def test_a_missing_metric_is_an_error_that_names_those_there_are(db, trial, question):
    with pytest.raises(MissingMetric, match=r"no metric 'flop' \(it has: time, misses\)"):
        question(db, trial, "flop")


@pytest.mark.parametrize(
    "question",
    [
        metrics.flat_profile,
        metrics.call_tree,
        query.user_events,
        query.threads,
        query.metrics,
        query.trial_metadata,
    ],
)
def test_a_missing_trial_is_an_error(db, trial, question):
    with pytest.raises(NoSuchTrial, match="has no trial 77"):
        question(db, 77)


def test_user_events_of_threads_and_of_call_paths(db, trial):
    path = "<module> [{app.py}{1}] => f [{app.py}{3}] => g [{app.py}{9}]"
    found = query.user_events(db, trial)
    assert found == [
        # 2, 4, 6: mean 4, variance 56/3 - 16
        EventRow(0, 0, 0, "memory", "bytes", None, 3, 2.0, 6.0, 4.0, (56 / 3 - 16) ** 0.5),
        # 1, 3: mean 2, variance 10/2 - 4
        EventRow(0, 0, 0, "read", "bytes", path, 2, 1.0, 3.0, 2.0, 1.0),
    ]


def test_the_path_of_an_event_deep_down_is_cut_at_its_beginning(db):
    profile = deep_profile(5000)
    profile.threads[0].user_events.append(event("e", [1.0]))
    from dataclasses import replace

    profile.threads[0].user_events[0] = replace(profile.threads[0].user_events[0], row=4999)
    trial = add_profile(db, profile)
    steps = query.user_events(db, trial)[0].callpath.split(" => ")
    assert steps == ["...", *["down [{deep.py}{2}]"] * 100]


def test_threads_metrics_and_metadata(db, trial):
    assert query.threads(db, trial) == [
        ThreadRow(0, 0, 0, "host", "MainThread"),
        ThreadRow(0, 0, 1, "host", "worker"),
    ]
    assert query.metrics(db, trial) == [Metric("time", "ns"), Metric("misses", "count")]
    assert query.trial_metadata(db, trial) == [
        (None, "Command", "app.py --fast"),
        (None, "GPU Name", "NVIDIA H200"),
        (0, "PID", "4711"),
    ]


def test_equal_siblings_come_by_name(db):
    children = [call(Timer(name), 1, 5) for name in ("c", "a", "b")]
    trial = add_profile(db, profile_of(host(call("main", children=children))))
    assert [row.timer for row in tree_rows(metrics.call_tree(db, trial))] == ["main", "a", "b", "c"]
