"""Where the time went in the program's own code, whatever it is started as and wherever it lies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taupy.analysis.line_times import HotLine
from taupy.answers import places
from taupy.answers.own_code import by_kind, kinds
from taupy.commands import storer
from taupy.model import thread_groups
from taupy.model.profile import LineTime, Timer
from taupy.model.rows import TimerRow
from taupy.model.sampled import CPU_TIME, RUN_DELAY, STATES, suspended
from taupy.pprof.cells import seen_by
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.report import screen
from tests.builders import (
    call,
    database_at,
    event,
    host,
    profile_of,
    random_profile,
    small_profile,
)

LIB = "/venv/lib/python3.12"
PACKAGES = f"{LIB}/site-packages"


def own(name, line=1, file="app.py", folder="/home/u"):
    return Timer(name, file, line, path=f"{folder}/{file}")


def lib(name, file, line=1, folder=LIB):
    return Timer(name, file, line, path=f"{folder}/{file}")


def imported(name):
    return Timer(f"import {name}", groups=("IMPORT",))


def root(*children, start=0):
    return call(Timer(".taupy application", groups=("TAUPY",)), 1, start, children)


COMPILED = "/scratch/compiled/7g/c7gvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tq.py"
MAIN = own("<module>")


def stored(profile, tmp_path):
    """The groups as they are read from a database."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "t.db"
    with database_at(path) as db:
        add_profile(db, profile)
    with ProfileDB.open(path) as db:
        trial = db.latest().id
        return places.of_table(db, trial, values(db, places.question(trial)))


def found(profile, tmp_path):
    """The same, checked against those of the profile itself."""
    groups = stored(profile, tmp_path)
    assert groups == places.of_profile(profile)
    return {group.group: group for group in groups}


def rows(group):
    return [
        (place.kind, place.timer and places.where(place.timer), place.ns, place.calls)
        for place in group.places
    ]


def main_rows(profile, tmp_path):
    return rows(found(profile, tmp_path)["main thread"])


def test_libraries_and_c_functions_count_for_the_routine_that_calls_them(tmp_path):
    strptime = lib("_strptime_datetime", "_strptime.py")
    inner = lib("_strptime", "_strptime.py", 9)
    c = Timer("str.split", groups=("PYTHON_C",))
    day_of = call(own("day_of", 5), 200, 30, [call(strptime, 200, 50, [call(inner, 200, 100)]),
                                              call(c, 400, 20)])  # fmt: skip
    profile = profile_of(host(root(call(MAIN, 1, 7, [call(own("load", 9), 2, 3, [day_of])]))))
    group = found(profile, tmp_path)["main thread"]
    assert rows(group) == [
        ("own", "day_of (app.py:5)", 200, 200),
        ("own", "<module> (app.py:1)", 7, 1),
        ("own", "load (app.py:9)", 3, 2),
    ]
    day = group.places[0]
    assert day.share == 200 / 210
    assert (day.callee.timer.short_name, day.callee.ns, day.callee.calls) == (
        "_strptime_datetime", 150, 200,
    )  # fmt: skip
    assert (day.caller.timer.short_name, day.caller.calls) == ("load", 200)
    assert group.places[1].callee is None and group.places[1].caller is None


def test_a_routine_that_a_library_calls_back_is_a_place_of_its_own(tmp_path):
    apply = lib("DataFrame.apply", "pandas/core/frame.py", folder=PACKAGES)
    mapper = call(own("parse.<locals>.<lambda>", 6), 9000, 40)
    parse = call(own("parse", 5), 1, 1, [call(apply, 1, 10, [mapper])])
    group = found(profile_of(host(root(call(MAIN, 1, 0, [parse])))), tmp_path)["main thread"]
    assert rows(group) == [
        ("own", "parse.<lambda> (app.py:6)", 40, 9000),
        ("own", "parse (app.py:5)", 11, 1),
    ]
    assert group.places[0].caller.timer.short_name == "parse"


def test_imports_waiting_and_what_is_outside_stand_apart_and_all_adds_up(tmp_path):
    numpy = lib("<module>", "numpy/__init__.py", folder=PACKAGES)
    helper = own("<module>", 1, "helper.py")
    join = lib("Thread.join", "threading.py")
    wait = lib("Condition.wait", "threading.py", 8)
    main = call(MAIN, 1, 5, [
        call(imported("numpy"), 1, 11, [call(numpy, 1, 22)]),
        call(imported("helper"), 1, 1, [call(helper, 1, 60)]),
        call(own("gather", 3), 1, 4, [call(join, 2, 30, [call(wait, 2, 300)])]),
    ])  # fmt: skip
    shutdown = lib("_shutdown", "threading.py", 9)
    profile = profile_of(host(root(main, call(shutdown, 1, 8), start=2)))
    assert main_rows(profile, tmp_path) == [
        ("own", "<module> (helper.py:1)", 60, 1),
        ("own", "<module> (app.py:1)", 5, 1),
        ("own", "gather (app.py:3)", 4, 1),
        ("waiting", "gather (app.py:3)", 330, 1),
        ("waiting", None, 8, None),
        ("imports", None, 34, None),
        ("outside", None, 2, None),
    ]


def test_what_a_child_process_does_is_work_of_the_routine_that_starts_it(tmp_path):
    run = lib("run", "subprocess.py")
    wait = lib("Popen.wait", "subprocess.py", 9)
    main = call(MAIN, 1, 1, [call(own("build", 3), 4, 2, [call(run, 4, 3, [call(wait, 4, 90)])])])
    assert main_rows(profile_of(host(root(main))), tmp_path)[0] == (
        "own", "build (app.py:3)", 95, 4,
    )  # fmt: skip


def test_a_programs_own_queue_is_no_wait(tmp_path):
    take = own("Queue.get", 3, "queue.py")
    profile = profile_of(host(root(call(MAIN, 1, 1, [call(take, 5, 50)]))))
    assert main_rows(profile, tmp_path)[0] == ("own", "Queue.get (queue.py:3)", 50, 5)


def test_comprehensions_are_lines_of_the_routine_around_them(tmp_path):
    main = call(MAIN, 1, 1, [
        call(own("total", 3), 2, 4, [call(own("total.<locals>.<genexpr>", 4), 50, 40)]),
        call(own("<listcomp>", 8), 1, 5),
    ])  # fmt: skip
    assert main_rows(profile_of(host(root(main))), tmp_path) == [
        ("own", "total (app.py:3)", 44, 2),
        ("own", "<module> (app.py:1)", 6, 1),
    ]


def event_loop(*coroutines, select=400):
    """The calls of `asyncio.run`."""
    once = lib("BaseEventLoop._run_once", "asyncio/base_events.py", 9)
    selects = lib("EpollSelector.select", "selectors.py")
    return call(lib("run", "asyncio/runners.py"), 1, 2, [
        call(once, 80, 3, [call(selects, 80, select), *coroutines]),
    ])  # fmt: skip


def test_awaits_in_sequence_are_waiting_of_the_coroutine_that_awaits(tmp_path):
    sleep = lib("sleep", "asyncio/tasks.py")
    fetch = call(own("fetch", 3), 40, 6, [call(sleep, 40, 4)])
    rare = call(own("close", 5), 2, 1, [call(sleep, 2, 0)])
    main = call(MAIN, 1, 1, [event_loop(call(own("load", 7), 1, 2, [fetch, rare]))])
    profile = profile_of(host(root(main)))
    fetched = profile.timers.index(own("fetch", 3))
    row = list(profile.threads[0].tree.timer).index(fetched)
    await_ = replace(event(suspended(4), [10] * 40, "ns"), row=row)
    profile.threads[0].user_events.append(await_)
    group = found(profile, tmp_path)["main thread"]
    (waiting,) = [place for place in group.places if place.kind == "waiting"]
    assert (places.where(waiting.timer), waiting.ns, waiting.calls) == ("fetch (app.py:3)", 400, 40)
    assert waiting.callee.timer.short_name == "EpollSelector.select"
    assert (waiting.caller.timer.short_name, waiting.caller.calls) == ("load", 40)
    load = next(place for place in group.places if place.timer.short_name == "load")
    assert load.caller is None  # the program does not call what its event loop runs


def test_the_loops_own_work_comes_after_a_coroutine_that_it_is_for(tmp_path):
    sleep = lib("sleep", "asyncio/tasks.py")
    poll = call(own("poll", 3), 900, 90, [call(sleep, 900, 10)])
    once = call(lib("BaseEventLoop._run_once", "asyncio/base_events.py", 9), 900, 500, [poll])
    main = call(MAIN, 1, 1, [call(lib("run", "asyncio/runners.py"), 1, 2, [once])])
    assert [row[1:3] for row in main_rows(profile_of(host(root(main))), tmp_path)[:2]] == [
        ("poll (app.py:3)", 100),
        ("<module> (app.py:1)", 503),
    ]


def test_threads_workers_and_ranks_are_never_added_to_the_main_thread(tmp_path):
    work = own("work", 3)
    forked = call(MAIN, 0, 0, [
        call(lib("Pool", "multiprocessing/pool.py"), 0, 6, [
            call(lib("worker", "multiprocessing/pool.py", 9), 1, 4, [call(work, 3, 70)]),
        ]),
    ])  # fmt: skip
    thread = call(lib("Thread._bootstrap", "threading.py"), 1, 2, [call(work, 2, 20)])
    profile = profile_of(
        host(root(call(MAIN, 1, 5, [call(work, 1, 10)]))),
        host(root(thread), thread=1),
        host(root(call(MAIN, 1, 5, [call(work, 1, 90)])), node=1),
        host(root(forked), node=8),
        host(root(forked), node=9),
        node_metadata={0: {"Rank": "0", "Ranks": "2"}, 1: {"Rank": "1", "Ranks": "2"}, 8: {}},
    )
    groups = found(profile, tmp_path)
    assert {name: (group.threads, rows(group)[0]) for name, group in groups.items()} == {
        "main thread": (1, ("own", "work (app.py:3)", 10, 1)),
        "other ranks": (1, ("own", "work (app.py:3)", 90, 1)),
        "worker processes": (2, ("own", "work (app.py:3)", 140, 6)),
        "other threads": (1, ("own", "work (app.py:3)", 20, 2)),
    }
    # Of a forked process, what it does between tasks is not its parent's routine.
    assert rows(groups["worker processes"])[1:] == [("outside", None, 20, None)]
    assert groups["worker processes"].title == "2 worker processes, added up"


def test_parents_may_come_after_their_children():
    """Rows of a database have no order."""
    profile = small_profile()
    profile.threads = profile.threads[:1]
    tree = profile.threads[0].tree
    forwards = places.of_profile(profile)
    last = len(tree) - 1
    for name in ("timer", "calls"):
        getattr(tree, name).reverse()
    tree.exclusive["time"].reverse()
    tree.parent[:] = type(tree.parent)(
        "q", [-1 if row < 0 else last - row for row in reversed(tree.parent)]
    )
    assert places.of_profile(profile) == forwards


def test_the_same_places_are_found_before_and_after_a_profile_is_stored(tmp_path):
    from random import Random

    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        found(random_profile(Random(number)), folder)


RUNPY = Timer("_run_code", "<frozen runpy>", 65, path="<frozen runpy>")
STRING = Timer("<module>", "<string>", 1, path="<string>")
PROGRAMS = {
    "-c": (
        call(STRING, 1, 1, [call(Timer("f", "<string>", 2, path="<string>"), 3, 50)]),
        ("own", "f (<string>:2)", 50, 3),
    ),
    "standard input": (
        call(Timer("<module>", "<stdin>", 1, path="<stdin>"), 1, 50),
        ("own", "<module> (<stdin>:1)", 50, 1),
    ),
    "generated code": (
        call(MAIN, 1, 1, [call(own("f", 3), 1, 9, [
            call(Timer("__init__", "<string>", 2, path="<string>"), 3, 50),
        ])]),
        ("own", "f (app.py:3)", 59, 1),
    ),
    "a cell of a notebook": (
        call(lib("launch", "ipykernel/kernelapp.py", folder=PACKAGES), 1, 1, [
            call(Timer("f", "<ipython-input-3-0a>", 2, path="<ipython-input-3-0a>"), 3, 50),
        ]),
        ("own", "f (<ipython-input-3-0a>:2)", 50, 3),
    ),
    "a module by -m": (
        call(RUNPY, 1, 1, [call(own("<module>", 1, "pkg/__main__.py"), 1, 2, [
            call(own("work", 3, "pkg/core.py"), 1, 50),
        ])]),
        ("own", "work (pkg/core.py:3)", 50, 1),
    ),
    "an installed package in a folder of another name": (
        call(MAIN, 1, 1, [call(own("step", 3), 9, 2, [
            call(Timer("call", "pkg/x.py", 1, ("PYTHON", "LIBRARY"), "/opt/pkgs/pkg/x.py"), 9, 50),
        ])]),
        ("own", "step (app.py:3)", 52, 9),
    ),
    "such a package by -m": (
        call(RUNPY, 1, 1, [
            call(Timer("<module>", "pkg/x.py", 1, ("PYTHON", "LIBRARY"), "/opt/pkgs/pkg/x.py"), 1,
                 2, [call(Timer("f", "pkg/y.py", 1, ("PYTHON", "LIBRARY"), "/opt/pkgs/pkg/y.py"), 1,
                          50)]),
        ]),
        ("own", "f (pkg/y.py:1)", 50, 1),
    ),
    "a worker that is spawned": (
        call(Timer("<module>", "<string>", 1, path="<string>"), 1, 1, [
            call(lib("spawn_main", "multiprocessing/spawn.py"), 1, 60, [
                call(own("f", 2), 3, 50)])]),
        ("own", "f (app.py:2)", 50, 3),
    ),
    "a module of the standard library by -m": (
        call(RUNPY, 1, 1, [call(lib("<module>", "compileall.py"), 1, 2, [
            call(lib("compile_dir", "compileall.py", 3), 1, 50, [
                call(lib("compile", "py_compile.py", 7), 20, 30),
            ]),
        ])]),
        ("own", "compile_dir (compileall.py:3)", 80, 1),
    ),
    "an installed package by -m": (
        call(RUNPY, 1, 1, [call(lib("<module>", "tool/__main__.py", folder=PACKAGES), 1, 2, [
            call(lib("main", "tool/cli.py", folder=PACKAGES), 1, 50, [
                call(lib("parse", "other/parser.py", folder=PACKAGES), 9, 30),
            ]),
        ])]),
        ("own", "main (tool/cli.py:1)", 80, 1),
    ),
    "a console script": (
        call(Timer("<module>", "/venv/bin/tool", 1, path="/venv/bin/tool"), 1, 2, [
            call(lib("main", "tool/cli.py", folder=PACKAGES), 1, 50, [
                call(lib("parse", "other/parser.py", folder=PACKAGES), 9, 30),
            ]),
        ]),
        ("own", "main (tool/cli.py:1)", 80, 1),
    ),
    "a console script that runs the user's code": (
        call(Timer("<module>", "/venv/bin/pytest", 1, path="/venv/bin/pytest"), 1, 2, [
            call(lib("main", "_pytest/config.py", folder=PACKAGES), 1, 50, [
                call(own("test_a", 3, "test_it.py"), 1, 20),
            ]),
        ]),
        ("own", "test_a (test_it.py:3)", 20, 1),
    ),
    "an installed package that pytest tests": (
        call(Timer("<module>", "/venv/bin/pytest", 1, path="/venv/bin/pytest"), 1, 2, [
            call(lib("pytest_pyfunc_call", "_pytest/python.py", 180, PACKAGES), 2, 500, [
                call(lib("TestFlow.test_a", "flow/tests/test_a.py", 5, PACKAGES), 1, 20, [
                    call(lib("solve", "flow/solve.py", 7, PACKAGES), 1, 30),
                ]),
                call(lib("wrapper", "numpy/testing.py", 9, PACKAGES), 1, 70),
            ]),
        ]),
        ("own", "solve (flow/solve.py:7)", 30, 1),
    ),
    "the user's code, of which pytest has little to run": (
        call(Timer("<module>", "/venv/bin/pytest", 1, path="/venv/bin/pytest"), 1, 2, [
            call(lib("pytest_pyfunc_call", "_pytest/python.py", 180, PACKAGES), 2, 5000, [
                call(own("test_a", 3, "test_it.py"), 1, 20),
            ]),
        ]),
        ("own", "test_a (test_it.py:3)", 20, 1),
    ),
    "a script of one's own in a folder bin": (
        call(Timer("<module>", "bin/tool", 1, path="/home/u/bin/tool"), 1, 2, [
            call(lib("main", "tool/cli.py", folder=PACKAGES), 1, 50),
        ]),
        ("own", "<module> (bin/tool:1)", 52, 1),
    ),
    "a package installed in editable mode": (
        call(Timer("<module>", "/venv/bin/tool", 1, path="/venv/bin/tool"), 1, 2, [
            call(own("main", 3, "tool/cli.py", "/home/u/tool/src"), 1, 50),
        ]),
        ("own", "main (tool/cli.py:3)", 50, 1),
    ),
    "code that PyTorch generated": (
        call(MAIN, 1, 1, [call(own("step", 3), 9, 2, [
            call(Timer("call", "x.py", 1, path=COMPILED), 9, 50),
        ])]),
        ("own", "step (app.py:3)", 52, 9),
    ),
    "routines without files": (
        call("main", 1, 2, [call("solve", 7, 50)]),
        ("own", "solve", 50, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("started", PROGRAMS)
def test_however_a_program_is_started_its_own_code_is_found(started, tmp_path):
    tree, first = PROGRAMS[started]
    assert main_rows(profile_of(host(root(tree))), tmp_path)[0] == first


def test_the_hottest_place_is_that_of_the_threads_that_the_main_thread_waits_for(tmp_path):
    join = lib("Thread.join", "threading.py")
    work = own("work", 3)
    main = host(root(call(MAIN, 1, 5, [call(join, 1, 95)])))
    thread = host(root(call(work, 2, 80)), thread=1)
    assert _hottest(profile_of(main, thread)) == ("other threads", "work (app.py:3)")
    assert _hottest(profile_of(main)) == ("main thread", "waiting in <module> (app.py:1)")
    idle = host(root(call(work, 2, 1)), thread=1)
    assert _hottest(profile_of(main, idle)) == ("main thread", "waiting in <module> (app.py:1)")
    busy = host(root(call(MAIN, 1, 5, [call(work, 1, 40), call(join, 1, 9)])))
    assert _hottest(profile_of(busy, thread)) == ("main thread", "work (app.py:3)")
    assert places.hottest([]) is None


@pytest.mark.parametrize("thread", [0, 1], ids=["main", "other"])
@pytest.mark.parametrize(
    ("cpu_ns", "worked", "slept", "waits_ns"),
    [
        (40, [5], [15, 15, 15], 810),
        (600, [50, 100], [15, 15, 20], 225),
        (600, [], [15, 15, 20], 300),
        (600, [500] * 10, [40, 30, 30], 0),
        (40, [5], [45], 0),
    ],
    ids=["polls", "works, too", "nobody knows when it works", "hardly sleeps", "is seen once"],
)
def test_a_wait_for_a_processor_is_divided_as_the_rest_of_the_time(
    cpu_ns, worked, slept, waits_ns, thread, tmp_path
):
    """On a busy machine a routine stands in the queue for a processor after each sleep as in its
    work, and waits for the same part as on a quiet one; never longer than its thread had no CPU."""
    noted = [event(CPU_TIME, [cpu_ns], "ns"), event(STATES[1], [700], "ns")]
    noted += [
        replace(event(state, times, "ns"), row=1)
        for state, times in ((STATES[0], worked), (STATES[2], slept))
        if times
    ]
    measured = host(root(call(own("work", 3), 1, 900)), thread=thread, events=noted)
    main = [host(root(call(MAIN, 1, 1)))] if thread else []
    group = stored(profile_of(*main, measured), tmp_path)[-1]
    place = group.places[0]
    assert (place.asleep_ns, place.waits_ns) == (waits_ns, waits_ns)
    assert kinds([group._replace(group=thread_groups.MAIN)]).get("wait", 0) == waits_ns


def test_looks_at_lines_tell_how_long_a_routine_sleeps(tmp_path):
    """A sleep shorter than its thread's CPU time. A wait for a processor is divided line by line;
    looks at what the routine waits for elsewhere, which is known exactly, say nothing."""
    join, nap = lib("Thread.join", "threading.py"), own("nap", 9)
    tree = call(nap, 1, 300, [call(own("work", 3), 1, 3000), call(join, 1, 5000)])
    profile = profile_of(host(root(tree), events=[event(CPU_TIME, [3100], "ns")]))
    at = {timer.name: code for code, timer in enumerate(profile.timers)}
    profile.threads[0].lines = [
        LineTime(at["nap"], callee, line, line, -1, -1, state, looks, ns, ns, 0.0)
        for line, state, callee, looks, ns in (
            *(
                (10, "wait", None, 8, 200),
                (10, "runnable", None, 9, 300),
                (10, "cpu", None, 2, 100),
            ),
            *((11, "runnable", None, 9, 300), (11, "cpu", None, 2, 100)),
            (12, "lock", at["Thread.join"], 50, 5000),
        )
    ]
    (group,) = stored(profile, tmp_path)
    assert places.of_profile(profile)[0].places == group.places
    waits = {place.timer.short_name: place.waits_ns for place in group.places[:2]}
    assert waits == {"work": 0, "nap": 120}  # 400 of 1,000 of its 300 ns


@pytest.mark.parametrize(
    ("delay_ns", "waits"), [(200, [300, 0, 100]), (400, [100, 0, 0]), (None, [0, 0, 0])]
)
def test_what_a_main_thread_neither_ran_nor_was_kept_from_running_it_waited(
    delay_ns, waits, tmp_path
):
    """Also where nothing has looked: exact are its CPU time and run delay, all together."""
    noted = [event(CPU_TIME, [300], "ns")]
    noted += [] if delay_ns is None else [event(RUN_DELAY, [delay_ns], "ns")]
    tree = call(MAIN, 1, 5, [call(own("work", 3), 1, 195), call(own("nap", 9), 1, 600)])
    profile = profile_of(host(root(tree), events=noted))
    (group,) = stored(profile, tmp_path)
    assert places.of_profile(profile)[0].places == group.places
    of_all = kinds([group]).get("wait", 0)
    by_name = {place.timer.short_name: place.off_cpu_ns for place in group.places[:3]}
    assert [of_all, by_name["work"], by_name["nap"]] == waits


def test_the_end_of_a_run_knows_a_main_thread_that_polls():
    """As the report: from what samples saw."""
    noted = [event(CPU_TIME, [40], "ns"), replace(event(STATES[2], [200] * 4, "ns"), row=1)]
    profile = profile_of(host(root(call(MAIN, 1, 900)), events=noted))
    (group, place) = places.hottest(places.of_profile(profile))
    said = storer._hottest(group, place).words
    assert said.startswith("mostly waiting in <module> (app.py:1)")


def test_without_its_cpu_time_nobody_says_that_a_thread_was_off_the_cpu(tmp_path):
    """As in trials of older versions and of `taupy attach`."""
    noted = [event(STATES[0], [800], "ns"), event(STATES[1], [100], "ns")]
    work = host(root(call(own("work", 9), 1, 900)), thread=1, events=noted)
    groups = found(profile_of(host(root(call(MAIN, 1, 5))), work), tmp_path)
    assert [place.waits_ns for place in groups["other threads"].places] == [0]


def test_threads_that_had_no_processor_for_their_time_wait(tmp_path):
    """48 sleep for 50 ns each, of which watch and samples see nothing, and one works for 1 s."""
    serve, work = own("serve", 3), own("work", 9)

    def thread(number, routine, ns, cpu_ns, *more):
        noted = [event(CPU_TIME, [cpu_ns], "ns"), *more]
        return host(root(call(routine, 1, ns)), thread=number, events=noted)

    main = host(
        root(call(MAIN, 1, 900, [call(lib("Thread.join", "threading.py"), 1, 2400)])),
        events=[event(CPU_TIME, [40], "ns")],
    )
    asleep = [thread(number, serve, 50, 1) for number in range(1, 49)]
    queued = thread(49, work, 1000, 200, event(STATES[1], [790], "ns"))
    groups = found(profile_of(main, *asleep, queued), tmp_path)
    ours, others = groups["main thread"].places[0], groups["other threads"].places
    waiting = [(place.ns, place.off_cpu_ns, place.waits_ns) for place in others]
    assert waiting == [(2400, 2352, 2352), (1000, 0, 0)]  # in a queue for a processor, it works
    assert by_kind(others[0]) == {"own": 48, "wait": 2352}
    assert ours.waits_ns == 0  # of the main thread, more is measured
    assert screen.details_of(others[0]) == ["without a CPU for 2.35 us or more"]
    profile = profile_of(main, *asleep, queued)
    assert _hottest(profile) == ("other threads", "work (app.py:9)")
    (group, place) = places.hottest(places.of_profile(profile_of(main, *asleep)))
    told = storer._hottest(group, place).shown()
    assert told == "mostly waiting in serve (app.py:3): 2.40 us, 100 % of 48 other threads"


def _hottest(profile):
    group, place = places.hottest(places.of_profile(profile))
    return group.group, places.described(place)


def test_a_library_does_not_become_the_programs_because_its_workers_begin_in_it(tmp_path):
    """As with joblib's: `python -m joblib.externals.loky.backend.popen_loky_posix`."""
    fit = lib("fit", "joblib/parallel.py", folder=PACKAGES)
    main = host(root(call(MAIN, 1, 2, [call(fit, 1, 50)])))
    begin = lib("<module>", "joblib/popen.py", folder=PACKAGES)
    runs = Timer("_run_code", "<frozen runpy>", 1, path="<frozen runpy>")
    worker = host(root(call(runs, 1, 1, [call(begin, 1, 3, [call(fit, 1, 30)])])), node=1)
    groups = found(profile_of(main, worker), tmp_path)
    assert rows(groups["main thread"]) == [("own", "<module> (app.py:1)", 52, 1)]
    (workers,) = (group for name, group in groups.items() if name != "main thread")
    assert {place.kind for place in workers.places} == {"outside"}


def test_people_see_no_column_without_values(tmp_path):
    profile = profile_of(host(root(call(MAIN, 1, 5, [call(own("work", 3), 1, 40)]))))
    view = places.view(found(profile, tmp_path)["main thread"])
    shown, _ = seen_by(view, "people")
    assert [column.name for column in shown] == ["share_percent", "time_ns", "calls", "place"]
    assert "callee" in [column.name for column in seen_by(view, "machines")[0]]


def test_the_time_of_packages_is_theirs_within_own_code_and_outside(tmp_path):
    """`pytest` also of `_pytest`; C functions and generated code count for who calls them."""
    c = Timer("builtins.compile", groups=("PYTHON_C",))
    made = Timer("__create_fn__.<locals>.__init__", "<string>", 2, path="<string>")
    runner = call(lib("main", "_pytest/main.py", folder=PACKAGES), 1, 40, [
        call(lib("fixture", "pytest/fix.py", folder=PACKAGES), 3, 5),
        call(c, 1, 10), call(made, 2, 4),
        call(own("test_a", 3, "test_it.py"), 1, 30, [
            call(lib("loads", "json/__init__.py"), 2, 7),
        ]),
        call(imported("numpy"), 1, 20, [call(lib("f", "numpy/f.py", folder=PACKAGES), 1, 9)]),
    ])  # fmt: skip
    script = call(Timer("<module>", "/venv/bin/pytest", 1, path="/venv/bin/pytest"), 1, 2, [runner])
    group = found(profile_of(host(root(script))), tmp_path)["main thread"]
    assert [tuple(package) for package in group.packages] == [("pytest", 61, 61), ("json", 7, 0)]
    sums = kinds([group])
    assert (sums["own"], sums["lib"], sums["import"]) == (30, 61 + 7, 29)


def test_libraries_are_no_rest_where_own_code_takes_most(tmp_path):
    """As of a test suite whose own code is slow."""
    runner = lib("main", "_pytest/main.py", folder=PACKAGES)
    tests = call(runner, 1, 20, [call(own("test_a", 3, "test_it.py"), 1, 70)])
    script = Timer("<module>", "/venv/bin/pytest", 1, path="/venv/bin/pytest")
    group = found(profile_of(host(root(call(script, 1, 0, [tests])))), tmp_path)["main thread"]
    assert kinds([group]) == {"own": 70, "lib": 20}


def test_the_callees_of_imports_are_what_the_program_imports(tmp_path):
    inner = call(imported("numpy.core"), 1, 30)
    main = call(MAIN, 1, 5, [call(imported("numpy"), 1, 11, [inner]), call(imported("re"), 1, 2)])
    (place,) = [
        place
        for place in found(profile_of(host(root(main))), tmp_path)["main thread"].places
        if place.kind == "imports"
    ]
    assert [(part.timer.short_name, part.ns) for part in place.callees] == [
        ("import numpy", 41), ("import re", 2),
    ]  # fmt: skip


def test_profiles_of_other_tools_do_not_tell_where_the_standard_library_lies(tmp_path):
    """A program that another one has started by `-c`, with a data class; as torch.profiler names
    their files."""
    main = call(Timer("<module>", "<string>", 1), 1, 3, [
        call(Timer("run", "train.py", 5), 1, 20, [
            call(Timer("signature", "inspect.py", 30), 4, 40),
            call(Timer("__init__", "<string>", 2), 9, 6),
        ]),
    ])  # fmt: skip
    group = found(profile_of(host(root(main))), tmp_path)["main thread"]
    assert rows(group)[:2] == [
        ("own", "run (train.py:5)", 66, 1), ("own", "<module> (<string>:1)", 3, 1),
    ]  # fmt: skip
    callees = [places.called(part.timer) for part in group.places[0].callees]
    assert callees == ["signature", "__init__ (generated)"]


def test_a_method_that_attrs_has_made_is_named_by_its_class():
    timer = TimerRow("x", "__eq__", "<attrs generated eq app.models.Point>", 1, "PYTHON")
    assert places.called(timer) == "Point.__eq__ (generated)"


@pytest.mark.parametrize(
    ("routine", "where"),
    [
        (own("work", 3), "work (app.py:9): 100 ns, 100 %: text"),
        (MAIN, "<module> (app.py:9): 100 ns, 100 %: text"),
    ],
    ids=["routine", "module"],
)
@pytest.mark.parametrize("line_ns", [60, 80])
def test_the_end_of_a_run_names_the_line_and_whose_time_it_is(routine, line_ns, where):
    """The time is not that of the line, however much of it that has."""
    groups = places.of_profile(profile_of(host(root(call(routine, 1, 100)))))
    group, place = places.hottest(groups)
    line = HotLine("app.py", 9, line_ns, 1.0, "text", None)
    assert storer._hottest(group, replace(place, hottest=line)).shown() == f"most in {where}"
    for text, shown in (("x" * 41, "x" * 37 + "..."), ("x" * 40, "x" * 40), (None, "")):
        told = storer._hottest(group, replace(place, hottest=line._replace(text=text))).shown()
        assert told == f"most in {where.removesuffix(': text')}" + (shown and f": {shown}")
    late = line._replace(text=f"{'x' * 40}, model.transform(batch)", calls="model.transform()")
    told = storer._hottest(group, replace(place, hottest=late)).shown()
    assert told.endswith(": ...model.transform(batch)")
    of_definition = storer._hottest(group, replace(place, hottest=None, source="def work():"))
    assert of_definition.shown().endswith("): 100 ns, 100 %: def work():")


@pytest.mark.parametrize(
    ("share", "imports", "said"),
    [
        (0.19, 0.0, "no hot spot, first is"),
        (0.21, 0.0, "hottest is"),
        (0.51, 0.0, "most in"),
        (0.09, 0.5, "no hot spot, first is"),
        (0.11, 0.5, "hottest is"),
        (0.26, 0.5, "most of the rest in"),
        (0.51, 0.4, "most in"),
        (0.45, 0.2, "hottest is"),
    ],
)
def test_the_end_of_a_run_says_most_only_of_what_is_much(share, imports, said):
    """Of all, or of the rest where imports are named before it."""
    groups = places.of_profile(profile_of(host(root(call(own("work", 3), 1, 100)))))
    group, place = places.hottest(groups)
    told = storer._hottest(group, replace(place, share=share), imports)
    assert told.words.startswith(f"{said} ")


@pytest.mark.parametrize(
    ("routine", "own_ns", "said"),
    [
        (MAIN, 10, "most in C code that click calls: 70 ns, 70 %"),
        (MAIN, 60, "most in <module> (app.py:1): 100 ns, 100 %"),
        (own("main", 3), 10, "most in main (app.py:3): 100 ns, 100 %"),
    ],
    ids=["only starts", "computes", "routine"],
)
def test_the_end_of_a_run_names_the_library_that_a_file_only_starts(routine, own_ns, said):
    """As a command whose routines are compiled."""
    click = lib("Command.main", "click/core.py", folder=PACKAGES)
    run = call(click, 1, 70 if own_ns < 20 else 20, [call(lib("sub", "re/_parser.py"), 1, 20)])
    groups = places.of_profile(profile_of(host(root(call(routine, 1, own_ns, [run])))))
    assert storer._hottest(*places.hottest(groups)).shown() == said


def test_what_the_program_does_at_its_end_is_its_code_and_the_rest_pythons_exit(tmp_path):
    """The phase `exit` holds both, so that the rest has a name of its own."""
    at_end = call(Timer("exit", groups=("EXIT",)), 1, 40, [call(own("bye", 3), 1, 500)])
    group = found(profile_of(host(root(call(MAIN, 1, 7), at_end))), tmp_path)["main thread"]
    assert [(places.described(place), place.ns) for place in group.places] == [
        ("bye (app.py:3)", 500),
        ("<module> (app.py:1)", 7),
        ("Python's exit", 40),
    ]


def test_of_callees_with_equal_times_the_first_by_name_comes_first(tmp_path):
    names = ["parse", "join", "walk", "split", "loads"]
    callees = [call(lib(name, f"{name}.py"), 1, 10) for name in names]
    profile = profile_of(host(root(call(MAIN, 1, 5, callees))))
    (place,) = found(profile, tmp_path)["main thread"].places
    assert [part.timer.short_name for part in place.callees] == sorted(names)
