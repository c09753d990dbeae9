"""Tables with more rows than any default limit have the rows and numbers of the database, in every
form; plain SQL says which."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache, partial

import pytest

import taupy.notebook
from taupy.model.gpu import Launch
from taupy.model.profile import Thread, Timer
from taupy.model.sampled import GROWTH, KIB, STATES
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import MadeThread, call, event, host, profile_of, samples, steps
from tests.builders import collectives as made_collectives

MANY = 2_100
"""More than 25, 50, and the 2,000 rows from which on trees are written with NumPy."""
LAYERS, STEPS, RANKS = 60, 60, 60


def wide(number: int):
    """Routines, each with a kernel, a growth of memory and a wait; layers; user events."""
    spent = [1000 * (number * 7919 * (at + 1) % MANY) + 1000 for at in range(MANY)]
    routines = [Timer(f"f{at}", f"file{at // 2}.py", at + 1) for at in range(MANY)]
    layers = [Timer(f"body.{at} [Kind{at}]", groups=("LAYER",), short=f"body.{at}")
              for at in range(LAYERS)]  # fmt: skip
    main = call("main", 1, 10, [
        *(call(timer, at % 97 + 1, spent[at]) for at, timer in enumerate(routines)),
        *(call(timer, 2, 1000 * number * (at + 1)) for at, timer in enumerate(layers)),
    ])  # fmt: skip
    on_gpu = call("main", 0, 0, [
        call(timer, 0, 0, [call(Timer(f"k{at}", groups=("GPU_KERNEL",)), at % 89 + 1, spent[-at])])
        for at, timer in enumerate(routines)
    ])  # fmt: skip
    noted = [event(f"e{at}", [at + 1.0], "") for at in range(MANY)]
    profile = profile_of(
        host(main, events=noted),
        MadeThread(Thread(0, 1, 0, "stream", "stream 7", 7), on_gpu),
        number=number,
        name=f"t{number}",
        metadata={"n": str(number)},
    )
    first, stream = profile.threads
    first.user_events += [replace(event(GROWTH, [at + 1.0], KIB), row=at + 1) for at in range(MANY)]
    first.user_events += [
        replace(event(STATES[2], [1000.0 * (at + 1)], "ns"), row=at + 1) for at in range(MANY)
    ]
    first.steps = [steps([1000 * (at + 1) for at in range(STEPS)])]
    first.samples = [samples("Resident Memory", KIB, [100.0 + at for at in range(MANY)])]
    launched = [row for row, name in enumerate(stream.tree.timer)
                if profile.timers[name].groups == ("GPU_KERNEL",)]  # fmt: skip
    for row in launched:
        count, time = stream.tree.calls[row], stream.tree.exclusive["time"][row]
        stream.launches.append(Launch(count=count, time_ns=time, maximum_ns=time, row=row))
    return profile


def job():
    """Ranks, each with one more nanosecond in `main`, that meet in collectives."""
    asked = [[100 * at + rank for at in range(STEPS)] for rank in range(RANKS)]
    ends = [100 * at + 99 for at in range(STEPS)]
    threads = [host(call("main", 1, 1000 + rank), rank) for rank in range(RANKS)]
    profile = profile_of(*threads, number=9, name="job")
    for rank, thread in enumerate(profile.threads):
        thread.collectives = [
            made_collectives(asked[rank], ends, ranks=f"0-{RANKS - 1}", size=RANKS)
        ]
    return profile


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        for profile in (wide(1), wide(2), job()):
            add_profile(db, profile)
    return path


ROUTINES = """
    SELECT timer.{name}, sum(exclusive) FROM timer_value
      JOIN timer ON timer.id = timer_id JOIN thread ON thread.id = thread_id
     WHERE timer_value.trial_id = {trial} AND kind {kind} AND timer.name {named} GROUP BY timer.id
"""
KERNELS = """
    SELECT timer.short_name, sum(time_ns) FROM launch JOIN callpath ON callpath.id = callpath_id
      JOIN timer ON timer.id = timer_id WHERE trial_id = {trial} GROUP BY timer.id
"""
CALLS = """
    SELECT timer.name, sum(calls) FROM timer_call JOIN timer ON timer.id = timer_id
     WHERE trial_id = {trial} AND timer.name {named} GROUP BY timer.id
"""
PATHS = """
    SELECT CASE callpath.depth WHEN 0 THEN '' WHEN 1 THEN 'main => '
                ELSE 'main => ' || above.name || ' => ' END || timer.name, {value}
      FROM {table} JOIN callpath ON callpath.id = callpath_id
      JOIN timer ON timer.id = callpath.timer_id
      LEFT JOIN callpath AS parent ON parent.id = callpath.parent_id
      LEFT JOIN timer AS above ON above.id = parent.timer_id
     WHERE trial_id = {trial} GROUP BY callpath.id
"""
LAYERS_OWN = """
    SELECT timer.short_name, sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id
      JOIN timer_group USING (timer_id)
     WHERE trial_id = {trial} AND timer_group.name = 'LAYER' GROUP BY timer.id
"""
EVENTS = """
    SELECT user_event.name, sum(count * mean) / sum(count) FROM user_event_value
      JOIN user_event ON user_event.id = user_event_id
     WHERE trial_id = {trial} AND user_event.name LIKE 'e%' GROUP BY user_event.id
"""
OF_ROUTINES = """
    SELECT timer.name, {scale} * sum(count * mean) FROM user_event_value
      JOIN user_event ON user_event.id = user_event_id
      JOIN callpath ON callpath.id = callpath_id JOIN timer ON timer.id = timer_id
     WHERE trial_id = {trial} AND user_event.name = '{event}' GROUP BY timer.id
"""
IS_HOST, IS_GPU, ANY = "= 'host'", "<> 'host'", "IS NOT NULL"

ASKED = {
    "pprof 1 --summary-only --summary total": (("timer", "exclusive_ns"), ROUTINES, {"kind": ANY}),
    "pprof 1 --tree --thread 0.0.0": (("timer", "exclusive_ns"), ROUTINES, {"kind": IS_HOST}),
    "pprof 1 --callees main": (("timer", "calls"), CALLS, {"named": "LIKE 'f%'"}),
    "pprof 1 --kernels": (("kernel", "time_ns"), KERNELS, {}),
    "pprof 1 --events": (("event", "mean"), EVENTS, {}),
    "kernels 1": (("kernel", "time_ns"), KERNELS, {}),
    "layers 1": (("layer", "own_ns"), LAYERS_OWN, {}),
    "events 1": (("event", "mean"), EVENTS, {}),
    "memory 1": (("routine", "growth_bytes"), OF_ROUTINES, {"event": GROWTH, "scale": 1024}),
    "waiting 1": (("routine", "sleeping_ns"), OF_ROUTINES, {"event": STATES[2], "scale": 1}),
    "places 1": (
        ("routine", "time_ns"), ROUTINES,
        {"kind": IS_HOST, "name": "short_name", "named": "LIKE 'f%'"},
    ),
    "candidates 1 --metric time": (
        ("timer", "time_ns"), ROUTINES, {"kind": IS_GPU, "named": "LIKE 'k%'"},
    ),
    "compare 1 2": (("timer", "a_ns", "b_ns"), ROUTINES, {"kind": ANY}),
    "compare 1 2 --by kernel": (("timer", "a_ns", "b_ns"), ROUTINES, {"kind": IS_GPU}),
    "compare 1 2 --by callpath": (
        ("timer", "a_ns", "b_ns"), PATHS, {"table": "interval_value", "value": "sum(exclusive)"},
    ),
    "compare 1 2 --by callpath --sort name": (
        ("timer", "calls_a", "calls_b"), PATHS, {"table": "call", "value": "sum(calls)"},
    ),
    "compare 1 2 --by layer": (("timer", "a_ns", "b_ns"), LAYERS_OWN, {}),
    "compare 1 2 --by event --value mean": (("timer", "a", "b"), EVENTS, {}),
    "pivot 1 2 --rows routine --columns trial": (
        ("routine", "t1", "t2"), ROUTINES, {"kind": IS_HOST, "name": "short_name"},
    ),
    "pivot 1 2 --rows kernel --columns trial": (("kernel", "t1", "t2"), KERNELS, {}),
}  # fmt: skip
"""A question -> the columns of the key and the values, and the statement, for each trial."""


@pytest.fixture(autouse=True)
def chosen(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_DB", str(path))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))


def expected(path, sql, filled, trials):
    """Key -> its value in each trial, as SQL adds them up."""
    with ProfileDB.open(path) as db:
        statement = partial(sql.format, **{"name": "name", "named": ANY, **filled})
        of_trials = [dict(db.rows(statement(trial=trial))) for trial in range(1, trials + 1)]
    return {key: [of_trial[key] for of_trial in of_trials] for key in of_trials[0]}


@cache
def tables(command, form):
    """The rows of all tables, as dictionaries."""
    shown = in_process.taupy(*command.split(), form)
    assert shown.returncode == 0, shown.stderr
    if form == "--csv":
        return [row for block in shown.stdout.split("\n\n")
                for row in csv.DictReader(block.splitlines())]  # fmt: skip
    found = json.loads(shown.stdout)
    return [row for table in ([found] if isinstance(found, dict) else found)
            for row in table["rows"]]  # fmt: skip


@pytest.mark.parametrize("form", ["--json", pytest.param("--csv", marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ASKED)
def test_programs_get_the_rows_and_numbers_of_the_database(path, command, form):
    (key, *columns), sql, filled = ASKED[command]
    wanted = expected(path, sql, filled, len(columns))
    assert len(wanted) >= min(MANY, LAYERS)
    found = [row for row in tables(command, form) if row.get(key) in wanted]
    assert len(found) == len(wanted)
    for row in found:
        numbers = [float(row[column]) for column in columns]
        assert numbers == pytest.approx(wanted[row[key]], rel=1e-9), row[key]


@pytest.mark.parametrize("command", ["ranks 3", "ranks 3 --by collective", "steps 1"])
def test_every_rank_collective_and_step_has_a_row(command):
    assert len(tables(command, "--json")) == RANKS == STEPS


FRAMES = {
    "pprof 1 --summary-only --summary total": lambda trial: trial.routines(),
    "kernels 1": lambda trial: trial.kernels(),
    "layers 1": lambda trial: trial.layers(),
    "memory 1": lambda trial: trial.memory(),
    "waiting 1": lambda trial: trial.waiting(),
    "events 1": lambda trial: trial.events(),
    "places 1": lambda trial: trial.places(),
    "steps 1": lambda trial: trial.steps(),
    "candidates 1 --metric time": lambda trial: trial.candidates("time"),
}


@pytest.mark.parametrize("command", FRAMES)
def test_frames_have_the_rows_of_the_command(path, command):
    frame = FRAMES[command](taupy.notebook.open(path).trial(1))
    rows = tables(command, "--json")
    assert len(frame) == len(rows)
    for column in set(frame.columns) & {
        "exclusive_ns",
        "time_ns",
        "own_ns",
        "growth_bytes",
        "mean",
    }:
        assert frame[column].sum() == pytest.approx(sum(row[column] or 0 for row in rows))


@pytest.mark.parametrize(
    ("command", "frame"),
    [
        ("compare 1 2 --by callpath", lambda db: db.compare("1", "2", by="callpath")),
        ("pivot 1 2 --rows routine", lambda db: db.pivot("1", "2", rows=["routine"])),
        ("sweep 1 2 --by n --show routines",
         lambda db: db.sweep("1", "2", over="n").frame("routines")),
    ],
)  # fmt: skip
def test_frames_of_several_trials_have_them(path, command, frame):
    rows = [row for row in tables(command, "--json") if "timer" in row or "routine" in row]
    assert len(frame(taupy.notebook.open(path))) == len(rows) >= MANY


def test_what_people_do_not_see_is_added_up():
    text = in_process.taupy("compare", "1", "2", "--by", "callpath").stdout
    shown = [line.split() for line in text.splitlines()]
    (others,) = [words for words in shown if "-others-" in words]
    at = others.index("-others-")
    paths = tables("compare 1 2 --by callpath", "--json")
    paths = [row for row in paths if "calls_a" in row]
    for column, back in (("calls_a", 2), ("calls_b", 1)):
        largest = sorted(paths, key=lambda row: -abs(row["impact_ns"]))[:25]
        hidden = sum(row[column] for row in paths) - sum(row[column] for row in largest)
        assert int(others[at - back]) == hidden


@pytest.mark.parametrize(
    "command",
    ["pprof 1 --summary-only --summary total", "kernels 1", "places 1", "compare 1 2 --by callpath",
     "pivot 1 2 --rows routine", "candidates 1 --metric time --limit 5000"],
)  # fmt: skip
def test_all_rows_of_a_table_for_people_are_there(command):
    whole = () if "--limit" in command else ("--all",)
    text = in_process.taupy(*command.split(), *whole, "--markdown").stdout
    rows = {row.get("timer") or row.get("routine") or row.get("kernel")
            for row in tables(command, "--json")} - {None}  # fmt: skip
    assert len(rows) >= MANY
    assert sum(line.startswith("|") for line in text.splitlines()) >= len(rows)
