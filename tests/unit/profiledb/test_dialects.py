"""All SQL that reads values is SQLite's, and translates: DuckDB gives the same, PostgreSQL parses
it. Statements are those that questions, commands, notebooks and exports make."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from taupy.commands import COMMANDS
from taupy.model.question import EVENTS, LAUNCHES, VALUES, Condition, Question
from taupy.model.sampled import (
    BETWEEN,
    DOUBT,
    GROWTH,
    KIB,
    PEAK,
    RELEASED,
    RESIDENT,
    STATES,
)
from taupy.profiledb import gpu_query, kernel_codes
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import DIMENSIONS
from taupy.profiledb.gpu_query import WHERE_LAUNCHED
from taupy.profiledb.roofline_query import trial_work
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import UUID, event, gpu_profile, line_times, samples, small_profile, steps
from tests.in_process import taupy
from tests.kernel_codes import code
from tests.unit.analysis.counted import counted_profile
from tests.unit.profiledb.test_ceilings import MEASURED
from tests.unit.profiledb.test_layers import network
from tests.unit.profiledb.test_stamped import spanned
from tests.unit.ranks.test_command import rank

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")

TREE = ("thread", "callpath", "parent", "timer")
QUESTIONS = [
    *(
        Question((1, 2, 3), by=(name,))
        for name in (*DIMENSIONS, "meta.GPU Name")
        if name not in ("configuration", "event")
    ),
    *(
        Question((1, 2, 3), (), by, values=LAUNCHES)
        for by in ((), WHERE_LAUNCHED, ("trial", "kernel"), ("configuration",))
    ),
    Question((2, 3), (), ("timer",), (Condition("kind", ("gpu",)),), values=LAUNCHES),
    Question((1, 2, 3), (), ("trial", "thread", "callpath", "event"), values=EVENTS),
    Question((1,), (), ("timer",), (Condition("event", ("loss", "batch")),), values=EVENTS),
    Question(
        (2, 3),
        ("calls", "time"),
        ("trial", "thread", "callpath"),
        (Condition("kind", ("gpu",)), Condition("group", ("GPU_KERNEL",))),
    ),
    Question((1,), by=("thread", "timer"), values=VALUES),
    Question((1, 2, 3), by=("trial", "thread", "timer"), values=VALUES),
    Question((2,), by=TREE, values=VALUES),
    Question((4, 5), by=("trial", "thread", "line")),
    Question((1, 2), by=("file",), values=VALUES),
    Question((1, 2, 3), by=("timer",), over="max"),
    Question((3,), ("warps_launched", "time"), by=("kind",), values=VALUES, together=True),
    Question((3,), ("instructions", "cycles"), by=("timer",), values=VALUES, together=True),
    Question((1, 3), ("sum(misses, cycles)", "first(misses, time)"), by=("trial",)),
    Question(
        (1, 2, 3),
        by=("callpath",),
        where=(
            Condition("kind", ("host",)),
            Condition("group", ("PYTHON",)),
            Condition("depth", (1,), "at least"),
            Condition("depth", (3,), "at most"),
            Condition("inclusive", (40,), "at least"),
        ),
    ),
]
OF_THE_FILE = re.compile("PRAGMA|sqlite_schema")
TYPES = {"INTEGER": "BIGINT", "TEXT": "VARCHAR", "REAL": "DOUBLE", "ANY": "DOUBLE"}


def training(number):
    """Layers and phases, steps, and what a watch samples."""
    profile = network(number=number)
    profile.experiment = "sweep"
    profile.metadata = {"batch_size": str(number), "Command Line": "python train.py"}
    main = profile.threads[0]
    main.steps = [steps([100, 120, 90])]
    main.lines = line_times(main.tree.timer[1])
    main.activities = [spanned(2, 20, 80)]
    main.samples = [samples(RESIDENT, KIB, [100.0, 300.0])]
    main.user_events = [
        replace(event(name, [4.0, 8.0], KIB), row=row)
        for row, name in enumerate((GROWTH, DOUBT, BETWEEN, RELEASED, PEAK, *STATES))
    ]
    main.user_events += [
        replace(event(name, [1e6], unit), row=2)
        for name, unit in (("flop_fp64", "flop"), ("bytes_dram", "B"))
    ]
    return profile


def launches(number):
    """Kernels that a trace has stamped, and steps."""
    profile = gpu_profile(number)
    profile.threads[0].steps = [steps([100])]
    return profile


def fill(db):
    """Six trials, and what belongs to none."""
    made = (small_profile, launches, counted_profile, training, training)
    for number, make in enumerate(made, 1):
        add_profile(db, make(number))
    for node, asked in enumerate(([20, 120], [85, 180])):
        add_profile(db, replace(rank(node, 20, asked), uuid=UUID.format(6)))
    add_ceilings(db, [MEASURED])
    list(kernel_codes.storing(db, [code("gemm", chip="9.0")]))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("dialects") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        fill(db)
    with ProfileDB.open(path) as db:
        yield db


@pytest.fixture(scope="module")
def duck(store):
    """The same tables in DuckDB."""
    connection = duckdb.connect()
    for (name,) in store.rows("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        columns = store.rows(f"SELECT name, type FROM pragma_table_info('{name}')")
        if any(kind not in TYPES for _, kind in columns):
            continue  # SQLite's own
        typed = ", ".join(f'"{column}" {TYPES[kind]}' for column, kind in columns)
        connection.execute(f'CREATE TABLE "{name}" ({typed})')
        marks = ", ".join("?" * len(columns))
        if rows := store.rows(f'SELECT * FROM "{name}"'):
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    yield connection
    connection.close()


COLUMN_BY_COLUMN = re.compile(r"\AWITH answer \([^)]*\) AS \((.*)\)\nSELECT count\(.*\Z", re.DOTALL)
"""How SQLite is asked for columns; other engines return rows."""


def statements(db, monkeypatch, ask, *question):
    """What SQLite is asked for, with parameters; not what is asked of its file."""
    asked = []
    selected = ProfileDB._selected

    def noted(self, sql, parameters):
        asked.append((COLUMN_BY_COLUMN.sub(r"\1", sql), parameters))
        return selected(self, sql, parameters)

    monkeypatch.setattr(ProfileDB, "_selected", noted)
    ask(db, *question)
    monkeypatch.undo()
    return [(sql, parameters) for sql, parameters in asked if not OF_THE_FILE.search(sql)]


def in_order(rows):
    return sorted(rows, key=lambda row: [(one is None, str(type(one) is str), one or 0)
                                         for one in row])  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_statement_gives_the_same_on_duckdb(store, duck, monkeypatch, question):
    asked = statements(store, monkeypatch, values, question)
    assert any(re.search("_value|FROM (launch|step|line)", sql) for sql, _ in asked)
    assert_same_on(duck, store, asked)


COMPARED = set()
"""Statements with their parameters: commands share most of theirs, and the trials stay the same."""


def assert_same_on(duck, store, asked):
    for sql, parameters in asked:
        if (key := (sql, repr(parameters))) in COMPARED:
            continue
        (translated,) = sqlglot.transpile(sql, read="sqlite", write="duckdb")
        answer = duck.execute(translated, parameters).fetchall()
        assert in_order(answer) == in_order(store.rows(sql, parameters)), sql
        COMPARED.add(key)


def roofline(db):
    works = trial_work(db, db.trials())
    assert [bool(work.kernels) for work in works] == [False, True, True, False, False, False]


def kernels(db):
    for by in ("timer", "configuration", "module"):
        assert gpu_query.kernels(gpu_query.launched(db, 2, more=(by,)), by)


def call_paths(db):
    paths = values(db, Question((1, 2, 3), by=("callpath",))).labels["callpath"]
    above = Ancestry.of(db, paths)
    assert all(above.names(path) for path in paths)


@pytest.mark.parametrize("ask", [roofline, kernels, call_paths])
def test_what_is_made_of_questions_gives_the_same_on_duckdb(store, duck, monkeypatch, ask):
    assert_same_on(duck, store, statements(store, monkeypatch, ask))


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_statement_is_understood_as_postgresqls(store, monkeypatch, question):
    assert_understood_by_postgresql(statements(store, monkeypatch, values, question))


def assert_understood_by_postgresql(asked):
    for sql in {sql for sql, _ in asked}:
        assert_selects_from_postgresql(sql)


@cache
def assert_selects_from_postgresql(sql):
    (translated,) = sqlglot.transpile(
        sql, read="sqlite", write="postgres", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    assert sqlglot.parse_one(translated, read="postgres").find(sqlglot.exp.Select)


READING = [
    "report 4",
    "lines 4",
    "lines 4 --detail call",
    "report 2 --json",
    "report 1 2 -o page.html",
    "pprof 1",
    "pprof 4 --tree",
    "pprof 2 --by module",
    "pprof 4 --by layer",
    "pprof 4 --by phase",
    "pivot 4 5 --by step,phase --columns trial",
    "pprof 1 --events",
    "events 1",
    "pprof 3 --metric warps_per_inst",
    "phases 4",
    "phases 6 --by rank",
    "steps 4",
    "ranks 6",
    "ranks 6 --by step",
    "ranks 6 --by collective",
    "ranks 6 --by layer",
    "layers 4",
    "layers 4 --by type",
    "layers 4 --by step",
    "memory 4",
    "memory 4 --by layer",
    "memory 4 --series",
    "waiting 4 --by phase",
    "kernels 2",
    "kernel gemm --trial 2",
    "kernels 2 --by step",
    "kernels 2 --activity",
    "places",
    "trials",
    "trials show 2",
    "compare 1 2",
    "compare 1 4 --by layer",
    "compare 1 4 --by callpath",
    "compare 1 4 --fail-on time>500%",
    "pivot",
    "pivot --rows application --columns gpu",
    "roofline 4 --by routine",
    "derive show warps_per_inst --trial 3",
    "candidates 3",
    "candidates 2 --by module",
    "candidates 2 --metric code",
    "sweep --by batch_size",
    "ceilings list",
    *(f"export 4 --format {form} -o file" for form in ("chrome", "tau", "csv", "speedscope")),
]
UNDECIDED = 4  # what a gate of single runs ends with
NEITHER = {
    "attach", "dump",
    "run", "top", "static", "avail", "import", "merge", "doctor", "setup", "clean", "completion",
    "help",
    "store", "push", "pull",  # trials are copied
    "serve", "query",  # the user's own SQL, for SQLite
    "gate",  # as compare
}  # fmt: skip


def test_every_command_that_reads_trials_is_here():
    assert {command.split()[0] for command in READING} == COMMANDS.keys() - NEITHER


@pytest.mark.parametrize("command", READING)
def test_what_a_command_asks_gives_the_same_on_duckdb(store, duck, monkeypatch, tmp_path, command):
    def ask(db):
        shown = taupy(*command.split(), "--db", db.path, cwd=tmp_path)
        assert shown.returncode in (0, UNDECIDED), shown.stderr

    asked = statements(store, monkeypatch, ask)
    assert asked
    assert_same_on(duck, store, asked)
    assert_understood_by_postgresql(asked)


@pytest.mark.slow
def test_what_a_notebook_asks_gives_the_same_on_duckdb(store, duck, monkeypatch):
    pytest.importorskip("pandas")
    import taupy

    def ask(db):
        database = taupy.open(db.path)
        assert len(database.trials()) == 6 and len(database.pivot())
        trial = database.trial(2)
        for table in ("profile", "callpaths", "kernels", "launches", "threads", "metadata"):
            assert len(getattr(trial, table)()), table
        assert len(database.trial(4).timeline()) and len(database.trial(4).user_events())
        assert len(database.compare(1, 2))

    asked = statements(store, monkeypatch, ask)
    assert_same_on(duck, store, asked)
    assert_understood_by_postgresql(asked)
