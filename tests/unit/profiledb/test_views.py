"""The views that people without taupy select from."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from taupy.profiledb.pages import PAGES
from taupy.profiledb.reader import read_profile
from taupy.profiledb.schema_views import VIEWS
from taupy.profiledb.writer import add_profile
from tests.builders import call, deep_profile, host, profile_of, small_profile, wide_profile

MAIN, F, G = "<module> [{app.py}{1}]", "f [{app.py}{3}]", "g [{app.py}{9}]"


@pytest.fixture
def trial(db):
    return add_profile(db, small_profile())


def test_the_pprof_view_is_the_pprof_table(db, trial):
    rows = db.rows(
        "SELECT node, context, thread, percent, exclusive_ms, inclusive_ms, calls, subroutines,"
        ' usec_per_call, timer, "groups", exclusive, inclusive'
        " FROM pprof WHERE trial_id = ? AND metric = 'time'",
        (trial,),
    )
    assert rows == [
        (0, 0, 0, 100.0, 1e-5, 15e-5, 1, 7, 0.15, MAIN, "PYTHON", 10, 150),
        (0, 0, 0, 60.0, 5e-5, 9e-5, 5, 7, 0.018, F, "PYTHON|USER", 50, 90),
        (0, 0, 0, 60.0, 9e-5, 9e-5, 9, 0, 0.01, G, "PYTHON", 90, 90),
        (0, 0, 1, 100.0, 5e-6, 12e-6, 1, 1, 0.012, MAIN, "PYTHON", 5, 12),
        (0, 0, 1, 58.33, 7e-6, 7e-6, 1, 0, 0.007, G, "PYTHON", 7, 7),
    ]


def test_other_metrics_have_values_and_no_times(db, trial):
    rows = db.rows("SELECT timer, exclusive, exclusive_ms, percent FROM pprof WHERE unit = 'count'")
    assert rows == [(MAIN, 0, None, 100.0), (G, 10, None, 66.67), (F, 5, None, 46.67)]


def test_the_function_summary_has_totals_and_means_over_all_threads(db, trial):
    rows = db.rows(
        "SELECT timer, threads, calls, subroutines, exclusive, inclusive, calls_mean,"
        " exclusive_mean, exclusive_minimum, exclusive_maximum, exclusive_stddev,"
        " inclusive_mean, inclusive_stddev"
        " FROM function_summary WHERE trial_id = ? AND metric = 'time'",
        (trial,),
    )
    assert rows == [
        (MAIN, 2, 2, 8, 15, 162, 1.0, 7.5, 5, 10, 2.5, 81.0, 69.0),
        (G, 2, 10, 0, 97, 97, 5.0, 48.5, 7, 90, 41.5, 48.5, 41.5),
        (F, 1, 5, 7, 50, 90, 2.5, 25.0, 0, 50, 25.0, 45.0, 45.0),
    ]


def test_the_callpaths_view_spells_paths_out(db, trial):
    rows = db.rows(
        "SELECT path, depth, calls, exclusive, inclusive FROM callpaths"
        " WHERE trial_id = ? AND thread = 0 AND metric = 'time' ORDER BY path",
        (trial,),
    )
    assert rows == [
        (MAIN, 0, 1, 10, 150),
        (f"{MAIN} => {F}", 1, 2, 20, 90),
        (f"{MAIN} => {F} => {F}", 2, 3, 30, 30),
        (f"{MAIN} => {F} => {G}", 2, 4, 40, 40),
        (f"{MAIN} => {G}", 1, 5, 50, 50),
    ]


def test_the_callpaths_view_cuts_deep_paths_at_their_beginning(db):
    add_profile(db, deep_profile(300))
    (path,) = db.rows("SELECT path FROM callpaths WHERE depth = 299")[0]
    down = "down [{deep.py}{2}]"
    assert path == " => ".join(["...", *[down] * 100])
    (path,) = db.rows("SELECT path FROM callpaths WHERE depth = 99")[0]
    assert path == " => ".join(["<module> [{deep.py}{1}]", *[down] * 99])


def test_the_other_views(db, trial):
    assert db.rows("SELECT event, count, mean, stddev, path FROM user_events") == [
        ("memory", 3, 4.0, pytest.approx((56 / 3 - 16) ** 0.5), None),
        ("read", 2, 2.0, 1.0, f"{MAIN} => {F} => {G}"),
    ]
    assert db.rows("SELECT node, name, value FROM trial_metadata") == [
        (None, "Command", "app.py --fast"),
        (None, "GPU Name", "NVIDIA H200"),
        (0, "PID", "4711"),
    ]
    db.tag(trial, "slow")
    db.tag(trial, "baseline")
    assert db.rows(
        "SELECT trial_id, application, experiment, trial, duration_s, nodes, threads, tags"
        " FROM trials"
    ) == [(1, "app", "default", "1", 2.0, 1, 2, "baseline, slow")]


def test_the_views_of_two_trials_do_not_mix(db, trial):
    second = add_profile(db, profile_of(host(call("main", 1, 5)), number=2))
    for view, expected in {"pprof": 1, "function_summary": 1, "callpaths": 1}.items():
        rows = db.rows(f"SELECT application, trial FROM {view} WHERE trial_id = ?", (second,))
        assert rows == [("app", "2")] * expected


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_says_which_trial_a_row_is_of(db, trial, view):
    columns = [name for _, name, *_ in db.rows(f"PRAGMA table_info({view})")]
    assert columns[:4] == ["trial_id", "application", "experiment", "trial"]


@pytest.mark.parametrize("view", ["pprof", "function_summary"])
def test_views_of_one_trial_look_at_its_summary_only(db, view):
    """What makes them fast: no step of the plan reads a table of the trial from end to end."""
    add_profile(db, wide_profile(2000, timers=20))
    plan = db.rows(f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE trial_id = 1")
    steps = [step for *_, step in plan]
    scans = [step for step in steps if step.startswith("SCAN ") and "(" not in step]
    assert [step for step in scans if step.split()[1] in ("call", "interval_value", "value")] == []
    assert any("value USING PRIMARY KEY (trial_id=?" in step for step in steps)


def test_the_sqlite3_tool_gets_the_pprof_table(db, trial):
    tool = shutil.which("sqlite3")
    if tool is None:
        pytest.skip("the sqlite3 tool is not installed")
    question = "SELECT timer, calls FROM pprof WHERE trial_id = 1 AND thread = 1"
    answer = subprocess.run([tool, db.path, question], capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == (f"{MAIN}|1\n{G}|1\n", "")


def test_threads_that_were_added_up_count_each_as_their_mean(db):
    """Of 4 threads 1 took 10, and 3 took 60 together: 20 each."""
    several = {"count": 3, "least_ns": 5, "most_ns": 40, "name": "threads 2 to 4 of f"}
    one, three = call("f", exclusive=10), call("f", calls=3, exclusive=60)
    trial = add_profile(db, profile_of(host(one), host(three, thread=1, **several)))
    assert db.rows("SELECT threads FROM trials") == [(4,)]
    assert db.rows("SELECT name, count, least_ns, most_ns FROM thread ORDER BY thread") == [
        ("", 1, None, None),
        ("threads 2 to 4 of f", 3, 5, 40),
    ]
    ((*numbers, stddev),) = db.rows(
        "SELECT threads, calls, exclusive, calls_mean, exclusive_mean, exclusive_minimum,"
        " exclusive_maximum, exclusive_stddev FROM function_summary WHERE trial_id = ?",
        (trial,),
    )
    assert numbers == [4, 4, 70, 1, 17.5, 10, 20]
    assert stddev == pytest.approx((3 * 2.5**2 / 4 + 7.5**2 / 4) ** 0.5)
    assert read_profile(db, trial).threads[1].thread.count == 3
    assert load_imbalance(db, trial) == [pytest.approx((4, 17.5, 20))]


def load_imbalance(db, trial):
    """Threads, mean and maximum [ns] of each routine, as the page has them."""
    query = PAGES["load_imbalance"].sql.replace(":trial", str(trial))
    return [(row[2], row[3] * 1e6, row[5] * 1e6) for row in db.rows(query)]
