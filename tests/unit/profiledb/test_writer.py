"""What goes into the database, and that it comes out again."""

from __future__ import annotations

import copy
import math
from array import array
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import DatabaseError
from taupy.model.answer import flat_rows, tree_rows
from taupy.model.invariants import check
from taupy.model.profile import (
    CallTree,
    Metric,
    OperatorInput,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import timer_id, timer_ids
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import INVARIANTS, add_profile
from tests.builders import (
    SAMPLED_FROM_NS,
    call,
    canonical,
    deep_profile,
    event,
    gpu_profile,
    host,
    profile_of,
    random_profile,
    samples,
    small_profile,
    steps,
    wide_profile,
)

TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"


def contents(db):
    return {
        name: sorted(map(repr, db.rows(f"SELECT * FROM {name}"))) for (name,) in db.rows(TABLES)
    }


def flat(db, trial, metric="time"):
    return {
        (row.thread, row.short_name): (row.calls, row.subroutines, row.inclusive, row.exclusive)
        for row in flat_rows(metrics.flat_profile(db, trial, metric))
    }


def test_a_profile_survives_the_database_unchanged(db):
    profile = small_profile(name="first")
    trial = add_profile(db, profile)
    assert read_profile(db, trial) == canonical(profile)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_lawful_profile_survives_the_database_unchanged(tmp_path_factory, seed):
    profile = random_profile(Random(seed))
    profile.name = "any"
    with ProfileDB.open(tmp_path_factory.mktemp("any") / "t.db", create=True) as db:
        trial = add_profile(db, profile)
        assert read_profile(db, trial) == canonical(profile)
        assert query.trial_metadata(db, trial) == []  # no law was found broken
        assert db.verify() == []


def test_a_profile_of_a_gpu_survives_the_database_with_its_gaps(db):
    wanted = canonical(gpu_profile())
    assert check(wanted) == []
    read = read_profile(db, add_profile(db, gpu_profile()))
    flop = [
        math.isnan(value)
        for column in (read.threads[1].tree.inclusive, read.threads[1].tree.exclusive)
        for value in column["flop_fp32"]
    ]
    assert sorted(flop) == [*[False] * 10, True, True]
    assert repr(read) == repr(replace(wanted, name="1"))  # NaN is not equal to itself
    assert db.rows(
        "SELECT count(*) FROM interval_value JOIN metric ON metric.id = metric_id"
        " WHERE metric.name = 'flop_fp32'"
    ) == [(5,)]


def test_steps_survive_the_database(db):
    profile = small_profile()
    profile.threads[0].steps = [steps([100, 20, 30]), steps([50], "validation")]
    trial = add_profile(db, profile)
    assert repr(read_profile(db, trial).threads[0].steps) == repr(profile.threads[0].steps)
    rows = db.rows('SELECT kind, number, time_ms, samples, data_ms, loss_ms, "values" FROM steps')
    assert rows[:2] == [
        ("training", 1, 1e-4, 8, 1e-5, None, "loss 1.0"),
        ("training", 2, 2e-5, None, 2e-6, None, None),
    ]
    assert db.verify() == []


def test_inputs_of_operators_survive_the_database(db):
    profile = small_profile()
    profile.threads[0].inputs = [
        OperatorInput(1, "float32[8x4]", 2, 30, 3, 500),
        OperatorInput(1, "float32[8x8]", 1, 10, 1, 90),
    ]
    read = read_profile(db, add_profile(db, profile))
    assert sorted(own[1:] for own in read.threads[0].inputs) == [
        own[1:] for own in profile.threads[0].inputs
    ]
    trees = [thread.tree for thread in (read.threads[0], profile.threads[0])]
    timers = [
        timers[tree.timer[own.row]]
        for own, tree, timers in zip(
            (read.threads[0].inputs[0], profile.threads[0].inputs[0]), trees,
            (read.timers, profile.timers), strict=True,
        )
    ]  # fmt: skip
    assert timers[0] == timers[1]
    assert db.verify() == []


def test_values_over_time_survive_the_database(db):
    profile = gpu_profile()
    profile.threads[0].samples = [
        samples("GPU[0] sm_clock", "Hz", [1e9]),
        samples("GPU[0] sm_active", "%", [1.0, math.nan, 3.5]),
    ]
    read = read_profile(db, add_profile(db, profile))
    assert repr(read.threads[0].samples) == repr(profile.threads[0].samples[::-1])
    started = profile.started_at
    first = db.rows("SELECT start_s, end_s - start_s, mean FROM timeline WHERE unit = 'Hz'")
    moment = pytest.approx(SAMPLED_FROM_NS / 1e9 - started, abs=1e-5)
    assert first == [(moment, pytest.approx(1e-6, rel=0.2), 1e9)]
    assert db.rows("SELECT mean FROM timeline WHERE unit = '%'") == [(1.0,), (None,), (3.5,)]


def test_equal_profiles_make_equal_files_apart_from_their_identity(tmp_path):
    files = []
    for name in ("a.db", "b.db"):
        with ProfileDB.open(tmp_path / name, create=True) as db:
            add_profile(db, small_profile())
            files.append(contents(db))
    assert files[0] == files[1]


def test_the_flat_summary_counts_a_recursive_routine_once(db):
    # main 10 -> f 20 -> (f 30, g 40 -> f 50)
    g = call("g", 1, 40, [call("f", 2, 50)])
    main = call("main", 1, 10, [call("f", 1, 20, [call("f", 3, 30), g])])
    trial = add_profile(db, profile_of(host(main)))
    assert flat(db, trial) == {
        (0, "main"): (1, 1, 150, 10),
        (0, "f"): (6, 4, 140, 100),
        (0, "g"): (1, 2, 90, 40),
    }


def test_a_timer_beside_itself_is_summed_from_both_places(db):
    main = call("main", 1, 0, [call("a", 1, 1, [call("f", 1, 10)]), call("f", 1, 20)])
    trial = add_profile(db, profile_of(host(main)))
    assert flat(db, trial)[0, "f"] == (2, 0, 30, 30)


def test_values_stay_integer_nanoseconds_and_real_metrics_real(db):
    exact = 2**53 + 1  # no double holds it
    main = call(
        "main", 1, {"time": exact, "joules": 0.5}, [call("f", 1, {"time": 1, "joules": 2.0})]
    )
    profile = profile_of(host(main), metrics=[Metric("joules", "J"), Metric("time", "ns")])
    trial = add_profile(db, profile)
    assert flat(db, trial)[0, "main"] == (1, 1, exact + 1, exact)
    assert isinstance(flat_rows(metrics.flat_profile(db, trial))[0].inclusive, int)
    assert flat(db, trial, "joules")[0, "main"] == (1, 1, 2.5, 0.5)
    assert query.metrics(db, trial) == [Metric("time", "ns"), Metric("joules", "J")]


def test_a_metric_that_a_thread_lacks_has_no_rows_there(db):
    trial = add_profile(db, small_profile())
    assert {row.thread for row in flat_rows(metrics.flat_profile(db, trial, "misses"))} == {0}


def test_a_metric_without_a_number_on_one_thread_is_read_back_as_that(db):
    unknown = {"time": 1, "joules": math.nan}
    profile = profile_of(
        host(call("main", 1, {"time": 1, "joules": 0.5})),
        host(call("main", 1, unknown), thread=1),
        metrics=[Metric("time", "ns"), Metric("joules", "J")],
    )
    read = read_profile(db, add_profile(db, profile))
    assert list(read.threads[0].tree.inclusive["joules"]) == [0.5]
    assert all(map(math.isnan, read.threads[1].tree.inclusive["joules"]))


def test_a_timer_under_which_others_only_hang_is_not_in_the_flat_profile(db):
    tree = CallTree(
        array("q", [0, 1]),
        array("q", [-1, 0]),
        array("q", [0, 3]),
        array("q", [3, 0]),
        {"time": array("q", [30, 30])},
        {"time": array("q", [0, 30])},
    )
    profile = profile_of(host(call("main", 1, 5)))
    profile.timers.append(Timer("kernel", groups=("GPU_KERNEL",)))
    profile.threads.append(ThreadProfile(Thread(0, 1, 0, kind="stream"), tree))
    trial = add_profile(db, profile)
    assert [(r.context, r.timer) for r in flat_rows(metrics.flat_profile(db, trial))] == [
        (0, "main"),
        (1, "kernel"),
    ]
    tree = metrics.call_tree(db, trial, threads=[(0, 1, 0)])
    assert [row.timer for row in tree_rows(tree)] == ["main", "kernel"]
    assert read_profile(db, trial).metadata == {}


def test_trials_without_a_name_are_numbered_within_their_experiment(db):
    names = []
    for number, experiment in enumerate(["a", "a", "b", "a"], 1):
        trial = add_profile(db, small_profile(number, experiment=experiment))
        names.append(db.trial(trial).name)
    assert names == ["1", "2", "1", "3"]
    add_profile(db, small_profile(5, experiment="a", name="17"))
    last = add_profile(db, small_profile(6, experiment="a"))
    assert db.trial(last).name == "18"


def test_storing_the_same_profile_again_changes_nothing(db):
    first = add_profile(db, small_profile())
    before = contents(db)
    assert add_profile(db, small_profile()) == first
    assert contents(db) == before


def test_a_later_rank_joins_the_trial_of_its_uuid(db):
    zero = profile_of(host(call("main", 1, 10)), started_at=100.0, duration_ns=5 * 10**9)
    one = profile_of(
        host(call("main", 1, 30), node=1),
        started_at=101.5,
        duration_ns=10 * 10**9,
        application="another",
        metadata={"Rank": "1"},
        node_metadata={1: {"PID": "12"}},
    )
    trial = add_profile(db, zero)
    assert add_profile(db, one) == trial
    row = db.trial(trial)
    assert (row.application, row.started_at) == ("app", "1970-01-01T00:01:40.000000Z")
    assert row.duration_ns == 11_500_000_000
    found = read_profile(db, trial)
    assert [thread.thread.node for thread in found.threads] == [0, 1]
    assert found.metadata == {"Rank": "1"}
    assert found.node_metadata == {1: {"PID": "12"}}


def test_a_trial_is_incomplete_when_one_of_its_ranks_is(db):
    add_profile(db, profile_of(host(call("main")), state="incomplete"))
    trial = add_profile(db, profile_of(host(call("main"), node=1), exit_code=3))
    assert db.trial(trial).state == "incomplete"
    assert db.trial(trial).exit_code == 0


def test_a_trial_that_waited_for_a_child_is_complete_when_the_child_has_come(db):
    waiting = {"taupy.health.running": "1 child process", "taupy.health.note": "one"}
    early = profile_of(host(call("main")), state="incomplete", metadata=waiting)
    late = profile_of(host(call("main"), node=1), metadata={"taupy.health.note": "two"})
    trial = add_profile(db, early)
    add_profile(db, late)
    assert db.trial(trial).state == "complete"
    assert read_profile(db, trial).metadata == {"taupy.health.note": "one\ntwo"}


def test_a_trial_with_a_killed_process_stays_incomplete(db):
    remarks = {"taupy.health.running": "1 child process", "taupy.health.cut_off": "node 0"}
    early = profile_of(host(call("main")), state="incomplete", metadata=remarks)
    trial = add_profile(db, early)
    add_profile(db, profile_of(host(call("main"), node=1)))
    assert db.trial(trial).state == "incomplete"


def test_a_profile_that_breaks_a_law_is_stored_with_the_law_named(db):
    profile = small_profile()
    profile.threads[1].tree.exclusive["time"][1] = 700
    trial = add_profile(db, profile)
    note = dict((row.name, row.value) for row in query.trial_metadata(db, trial))[INVARIANTS]
    assert note.splitlines() == [
        "thread 0.0.1: time: exclusive above inclusive",
        "thread 0.0.1: time: inclusive is not exclusive plus the children's inclusive on 1 rows"
        " (row 1: 7, not 700)",
    ]
    assert flat(db, trial)[1, "g"] == (1, 0, 7, 700)


def test_a_profile_of_an_impossible_shape_is_stored_in_a_possible_one(db):
    profile = small_profile()
    tree = profile.threads[0].tree
    tree.parent[1] = 3  # stands after its child now
    tree.timer[4] = 99
    del tree.calls[4]
    profile.threads[0].user_events.append(event("lost", [1.0]))
    profile.threads[0].user_events.append(UserEvent("lost", "", 1, 1.0, 1.0, 1.0, 1.0, row=77))
    profile.threads.append(copy.deepcopy(profile.threads[1]))
    trial = add_profile(db, profile)
    found = read_profile(db, trial)
    assert INVARIANTS in found.metadata
    assert [thread.thread.thread for thread in found.threads] == [0, 1, 2]
    assert len(found.threads[0].tree) == 5
    assert "(unknown timer)" in [timer.name for timer in found.timers]


def test_rows_of_the_same_call_path_are_added_up(db):
    profile = small_profile()
    # f stands twice in the list of timers, as after importlib.reload
    profile.timers.append(copy.copy(profile.timers[1]))
    tree = profile.threads[1].tree
    tree.timer[:] = array("q", [0, 1])
    for column, values in (
        (tree.timer, [3]),
        (tree.parent, [0]),
        (tree.calls, [2]),
        (tree.subroutines, [0]),
        (tree.inclusive["time"], [9]),
        (tree.exclusive["time"], [9]),
    ):
        column.extend(values)
    tree.subroutines[0] = 3
    tree.inclusive["time"][0] = 21
    profile.threads[1].user_events.append(UserEvent("e", "", 1, 1.0, 1.0, 1.0, 1.0, row=2))
    trial = add_profile(db, profile)
    assert flat(db, trial)[1, "f"] == (3, 0, 16, 16)
    found = read_profile(db, trial)
    assert [one.row for one in found.threads[1].user_events] == [1]
    assert INVARIANTS not in found.metadata


HOSTILE = [
    'it\'s "quoted"; DROP TABLE trial; --',
    "two\nlines\r\x1b[31m",
    "nul\0inside",
    "\N{RIGHT-TO-LEFT OVERRIDE}bidi",
    "😀 => 😀",
    "x" * 100_000,
    "",
]


def test_hostile_names_come_back_as_they_were(db):
    children = [
        call(Timer(name, name, 1, (name,), name), events=[event(name, [1.0], name)])
        for name in HOSTILE
    ]
    profile = profile_of(
        host(call("main", children=children), name=HOSTILE[2]),
        name=HOSTILE[0],
        application=HOSTILE[1],
        experiment=HOSTILE[4],
        source=HOSTILE[2],
        metadata={name: name for name in HOSTILE},
    )
    trial = add_profile(db, profile)
    assert read_profile(db, trial) == canonical(profile)


def test_a_name_that_utf8_cannot_hold_is_stored_escaped(db):
    surrogate = "caf\udce9"
    profile = profile_of(
        host(call(Timer(surrogate, surrogate, 1, (surrogate,), surrogate)), name=surrogate),
        application=surrogate,
        metadata={surrogate: surrogate},
    )
    trial = add_profile(db, profile)
    escaped = "caf\\udce9"
    found = read_profile(db, trial)
    assert found.timers == [Timer(escaped, escaped, 1, (escaped,), escaped)]
    assert (found.application, found.metadata) == (escaped, {escaped: escaped})


def test_two_machines_share_a_timer_and_keep_their_own_paths(db):
    trials = []
    for number, home in enumerate(["/home/a", "/home/b"], 1):
        timer = Timer("f", "app.py", 1, path=f"{home}/app.py")
        trials.append(add_profile(db, profile_of(host(call(timer)), number=number)))
    assert db.rows("SELECT count(*) FROM timer") == [(1,)]
    assert [read_profile(db, trial).timers[0].path for trial in trials] == [
        "/home/a/app.py",
        "/home/b/app.py",
    ]


def test_timers_of_one_name_and_different_groups_are_different(db):
    children = [call(Timer("f", groups=("USER",)), 1, 10), call(Timer("f"), 1, 20)]
    trial = add_profile(db, profile_of(host(call("main", children=children))))
    rows = flat_rows(metrics.flat_profile(db, trial))
    assert [(row.timer, row.groups, row.inclusive) for row in rows] == [
        ("main", "PYTHON", 30),
        ("f", "PYTHON", 20),
        ("f", "USER", 10),
    ]


def test_the_same_metric_name_in_another_unit_is_another_metric(db):
    for number, unit in enumerate(["kB", "MB"], 1):
        profile = profile_of(
            host(call("main", 1, {"memory": number})),
            number=number,
            metrics=[Metric("memory", unit)],
        )
        add_profile(db, profile)
    assert [query.metrics(db, trial)[0].unit for trial in (1, 2)] == ["kB", "MB"]


def test_samples_that_are_not_numbers_are_kept(db):
    odd = UserEvent("loss", "", 2, math.nan, math.inf, math.nan, -math.inf)
    trial = add_profile(db, profile_of(host(call("main"), events=[odd])))
    found = read_profile(db, trial).threads[0].user_events[0]
    assert math.isnan(found.minimum) and math.isnan(found.mean)
    assert (found.maximum, found.sum_squares) == (math.inf, -math.inf)


@pytest.mark.parametrize("when", [math.nan, math.inf, -1e20, 1e20])
def test_a_start_that_no_calendar_holds_does_not_lose_the_trial(db, when):
    trial = add_profile(db, profile_of(host(call("main")), started_at=when))
    assert db.trial(trial).started_at == "1970-01-01T00:00:00.000000Z"


def test_a_number_beyond_64_bits_is_refused_and_nothing_is_half_stored(db):
    profile = profile_of(host(call(Timer("f", "f.py", 2**70))))
    with pytest.raises(DatabaseError, match="beyond 64 bits"):
        add_profile(db, profile)
    assert db.trials() == []
    assert db.rows("SELECT * FROM application") == []


@pytest.mark.slow
def test_a_recursion_of_a_hundred_thousand_levels_is_stored_and_read(db):
    profile = deep_profile(100_000)
    trial = add_profile(db, profile)
    assert flat(db, trial) == {
        (0, "<module>"): (1, 1, 100_000, 1),
        (0, "down"): (99_999, 99_998, 99_999, 99_999),
    }
    tree = tree_rows(metrics.call_tree(db, trial))
    assert [row.depth for row in tree] == list(range(100_000))
    assert read_profile(db, trial).threads == canonical(profile).threads


def test_a_profile_of_many_paths_survives_the_database_unchanged(db):
    profile = wide_profile(5000, timers=50)
    profile.name = "wide"
    trial = add_profile(db, profile)
    assert read_profile(db, trial) == canonical(profile)


def test_a_profile_without_threads_is_a_trial(db):
    trial = add_profile(db, profile_of(metadata={"a": "b"}))
    assert read_profile(db, trial).metadata == {"a": "b"}
    assert query.threads(db, trial) == []


def test_timers_of_any_name_keep_their_ids():
    timers = [Timer("größe", "x.py", 3, ("B", "A")), Timer("\udc80"), Timer("", groups=("A",))]
    ids = [7961088239265781464, 7256124232488314728, 3931411746490684460]
    assert timer_ids(timers) == ids == [timer_id(timer) for timer in timers]
    assert timer_ids([]) == []
