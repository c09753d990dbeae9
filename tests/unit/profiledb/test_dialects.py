"""The SQL of questions is SQLite's, and translates: DuckDB gives the same, PostgreSQL parses it."""

from __future__ import annotations

import pytest

from taupy.model.question import EVENTS, LAUNCHES, VALUES, Condition, Question
from taupy.profiledb import gpu_query, trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import DIMENSIONS
from taupy.profiledb.gpu_query import WHERE_LAUNCHED
from taupy.profiledb.roofline_query import trial_work
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, small_profile
from tests.unit.analysis.counted import counted_profile

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
TYPES = {"INTEGER": "BIGINT", "TEXT": "VARCHAR", "REAL": "DOUBLE", "ANY": "DOUBLE"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("dialects") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        for number, make in enumerate((small_profile, gpu_profile, counted_profile), 1):
            add_profile(db, make(number))
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


def statements(db, monkeypatch, ask, *question):
    """What SQLite is asked for, with parameters."""
    asked = []
    for name in ("rows", "stream"):
        method = getattr(ProfileDB, name)

        def noted(self, sql, parameters=(), method=method):
            asked.append((sql, parameters))
            return method(self, sql, parameters)

        monkeypatch.setattr(ProfileDB, name, noted)
    ask(db, *question)
    monkeypatch.undo()
    return asked


def in_order(rows):
    return sorted(rows, key=lambda row: [(one is None, str(type(one) is str), one or 0)
                                         for one in row])  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_statement_gives_the_same_on_duckdb(store, duck, monkeypatch, question):
    asked = statements(store, monkeypatch, values, question)
    assert any("_value" in sql or "FROM launch" in sql for sql, _ in asked)
    assert_same_on(duck, store, asked)


def assert_same_on(duck, store, asked):
    for sql, parameters in asked:
        (translated,) = sqlglot.transpile(sql, read="sqlite", write="duckdb")
        answer = duck.execute(translated, parameters).fetchall()
        assert in_order(answer) == in_order(store.rows(sql, parameters)), sql


def roofline(db):
    works = trial_work(db, db.trials())
    assert [bool(work.kernels) for work in works] == [False, True, True]


def kernels(db):
    for by in ("timer", "configuration", "module"):
        assert gpu_query.kernels(gpu_query.launched(db, 2, more=(by,)), by)


def call_paths(db):
    paths = values(db, Question((1, 2, 3), by=("callpath",))).labels["callpath"]
    names = trial_facts.callpath_names(db, paths)
    assert len(names) == len(paths)


@pytest.mark.parametrize("ask", [roofline, kernels, call_paths])
def test_what_is_made_of_questions_gives_the_same_on_duckdb(store, duck, monkeypatch, ask):
    asked = statements(store, monkeypatch, ask)
    # Of a trial's own row SQLite alone is asked, for its tags and its state.
    assert_same_on(duck, store, [one for one in asked if "FROM trial\n" not in one[0]])


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_statement_is_understood_as_postgresqls(store, monkeypatch, question):
    for sql, _ in statements(store, monkeypatch, values, question):
        (translated,) = sqlglot.transpile(
            sql, read="sqlite", write="postgres", unsupported_level=sqlglot.ErrorLevel.RAISE
        )
        assert sqlglot.parse_one(translated, read="postgres").find(sqlglot.exp.Select)
