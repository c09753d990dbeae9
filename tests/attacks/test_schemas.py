"""Databases whose schema computes: each is refused before a statement reads it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from taupy.errors import DatabaseError, FormatError
from taupy.formats.nsight import nsys
from taupy.formats.tau import sqlite as tau_sqlite
from taupy.model.progress import SILENT
from taupy.profiledb import migrations, schema_check
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sql import run_sql
from taupy.profiledb.writer import add_profile
from taupy.state import sqlite
from tests.builders import small_profile
from tests.unit.formats.nsys_files import SCHEMA, NsysFile


@pytest.fixture
def path(tmp_path):
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, small_profile(2))
    return tmp_path / "taupy.db"


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def rewrite(path, name, old, new):
    """Change the text of a table, as an editor of the file's bytes would."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        changed = connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = ? AND instr(sql, ?)",
            (old, new, name, old),
        )
        assert changed.rowcount == 1
        connection.commit()


HUGE = "printf('%.*c', 400000000, 'x')"


def generated_column(path):
    change(path, f"ALTER TABLE trial ADD COLUMN more TEXT AS ({HUGE})")
    return "the column trial.more is computed"


def generated_in_place(path):
    rewrite(path, "trial", "source TEXT NOT NULL", f"source TEXT AS ({HUGE})")
    return "the column trial.source is computed"


def large_default(path):
    change(path, f"ALTER TABLE trial ADD COLUMN more TEXT DEFAULT '{'x' * 1000}'")
    return "the column trial.more is not as taupy makes it"


def trigger(path):
    change(path, "CREATE TRIGGER t AFTER INSERT ON tag BEGIN DELETE FROM trial; END")
    return "it has a trigger, t"


def view_in_a_tables_place(path):
    change(
        path,
        "ALTER TABLE metadata RENAME TO hidden",
        f"CREATE VIEW metadata AS SELECT 1 AS trial_id, NULL AS node, {HUGE} AS name, 1 AS value",
    )
    return "metadata is a view, not a table"


def virtual_table(path):
    change(path, "DROP TABLE tag", "CREATE VIRTUAL TABLE tag USING rtree(trial_id, name, other)")
    return "is a virtual table"


def index_over_an_expression(path):
    change(path, "CREATE INDEX more ON tag (name, length(printf('%.*c', length(name), 'x')))")
    return "the index more computes an expression"


def partial_index(path):
    change(path, "CREATE INDEX more ON trial (name) WHERE length(name) > 3")
    return "the index more computes an expression"


def check_over_an_expression(path):
    rewrite(path, "tag", "name TEXT NOT NULL", f"name TEXT NOT NULL CHECK (length({HUGE}) > 0)")
    return "the table tag has a CHECK"


def check_behind_a_comment(path):
    new = f"name TEXT NOT NULL CONSTRAINT '--' CHECK/**/(length({HUGE}) > 0)"
    rewrite(path, "tag", "name TEXT NOT NULL", new)
    return "the table tag has a CHECK"


def not_strict(path):
    rewrite(path, "metadata", ") STRICT", ")")
    return "the table metadata is of another kind"


def of_another_type(path):
    rewrite(path, "trial", "duration_ns INTEGER", "duration_ns ANY")
    return "the column trial.duration_ns is not as taupy makes it"


HOSTILE = [
    generated_column,
    generated_in_place,
    large_default,
    trigger,
    view_in_a_tables_place,
    virtual_table,
    index_over_an_expression,
    partial_index,
    check_over_an_expression,
    check_behind_a_comment,
    not_strict,
    of_another_type,
]


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_a_database_whose_schema_computes_is_refused(path, make):
    expected = make(path)
    before = path.read_bytes()
    for more in ({}, {"readonly": False}, {"create": True}):
        with pytest.raises(DatabaseError) as caught, ProfileDB.open(path, **more):
            pass
        assert expected in str(caught.value)
        assert "\n" not in str(caught.value)
    other = path.with_name("other.db")
    with ProfileDB.open(other, create=True) as db:
        add_profile(db, small_profile(3))
    for target, source in ((path, other), (other, path)):
        with pytest.raises(DatabaseError, match="nothing in it is used"):
            from taupy.profiledb.merge import merge

            merge(str(target), [str(source)])
    assert path.read_bytes() == before


def test_an_older_database_is_compared_with_its_own_schema(path):
    change(
        path,
        "DROP TABLE module",
        "ALTER TABLE layer DROP COLUMN backward_passes",
        *("DROP VIEW trials", "DROP VIEW function_summary"),
        *(f"ALTER TABLE thread DROP COLUMN {name}" for name in ("count", "least_ns", "most_ns")),
        "PRAGMA user_version = 7",
    )
    trigger(path)
    with pytest.raises(DatabaseError, match="it has a trigger"):
        ProfileDB.open(path)
    change(path, "DROP TRIGGER t")
    with ProfileDB.open(path) as db:
        assert len(db.trials()) == 2


def test_a_schema_that_is_stored_as_blobs_is_compared_as_text(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = CAST(sql AS BLOB)")
        connection.commit()
    with ProfileDB.open(path) as db:
        assert len(db.trials()) == 2
    generated_column(path)
    with pytest.raises(DatabaseError, match="is computed"):
        ProfileDB.open(path)


def test_what_users_add_is_left_alone(path):
    change(
        path,
        "CREATE INDEX mine ON metadata (value, trial_id)",
        "CREATE TABLE notes (trial_id INTEGER REFERENCES trial, note TEXT)",
        "CREATE VIEW long AS SELECT * FROM trial WHERE duration_ns > 1",
        "ANALYZE",
    )
    with ProfileDB.open(path, readonly=False) as db:
        db.tag(1, "x")
        assert db.rows("SELECT count(*) FROM long")


PRODUCT = "trim(printf('%.50000c', 'b'), printf('%.50000c', 'a') || 'b')"
"""It takes 2,500,000,000 steps, in which SQLite cannot be interrupted."""


def test_a_view_in_the_place_of_ours_is_not_used(path):
    with ProfileDB.open(path) as db:
        names, before = run_sql(db, "SELECT * FROM function_summary")
        expected = list(before)
    columns = ", ".join(f"{PRODUCT} AS {name}" for name in ("trial_id", "timer", "exclusive"))
    change(path, "DROP VIEW trials", f"CREATE VIEW TRIALS AS SELECT {columns}")
    change(path, "DROP VIEW pprof", f"CREATE VIEW pprof AS SELECT {columns}")
    with ProfileDB.open(path) as db:
        again, rows = run_sql(db, "SELECT * FROM function_summary")
        assert (again, list(rows)) == (names, expected)
        assert list(run_sql(db, "SELECT trial_id FROM trials")[1]) == [(1,), (2,)]


def test_what_a_view_computes_is_bounded_in_time(path):
    """Users' own views may use these functions nevertheless."""
    change(
        path,
        f"CREATE VIEW slow AS SELECT {PRODUCT}",
        "CREATE VIEW plain AS SELECT printf('%.1f', 2) || replace(trim('xax', 'x'), 'a', 1.5)",
    )
    with ProfileDB.open(path) as db:
        assert list(run_sql(db, "SELECT * FROM plain")[1]) == [("2.01.5",)]
        with pytest.raises(DatabaseError, match="that large"):
            list(run_sql(db, "SELECT * FROM slow")[1])


@pytest.mark.parametrize(
    "call",
    [
        "instr('abc', 'c')", "instr(x'0102', x'02')", "instr(NULL, 1)", "instr(12.5, '.')",
        "replace('aba', 'a', 7)", "replace(1e20, '', 2)", "trim('xaxx', 'x')", "trim(' a ')",
        "ltrim(50, 5)", "rtrim(5.0, '0')", "rtrim(NULL, 'a')", "printf('%5.2f|%-*s|', 2, 4, 'x')",
        "printf(NULL)", "printf()", "format('%d%%', 20)", "json_patch('{}', '{\"a\": 1}')",
    ],
)  # fmt: skip
def test_functions_with_bounds_give_what_sqlite_gives(path, call):
    statement = f"SELECT {call}, typeof({call})"
    if call.startswith("format") and sqlite3.sqlite_version_info < (3, 38):
        pytest.skip("this SQLite has no format")
    with ProfileDB.open(path) as db, closing(sqlite3.connect(":memory:")) as plain:
        assert list(run_sql(db, statement)[1]) == plain.execute(statement).fetchall()


def test_the_hash_of_the_current_schema_is_that_of_a_new_database():
    with closing(sqlite.in_memory()) as connection:
        connection.execute("BEGIN")
        migrations.migrate(connection)
        assert schema_check.hashed(schema_check.entries(connection)) == schema_check.CURRENT


# --- limits of every connection


def connections(path):
    """A connection of each kind."""
    from taupy.formats import foreign_sqlite
    from taupy.profiledb.files import reading_connection, writing_connection

    yield reading_connection(str(path))
    yield writing_connection(str(path), create=False)
    yield sqlite.in_memory()
    with foreign_sqlite.opened(path) as connection:
        yield connection


FORBIDDEN = (
    "SELECT replace(hex(zeroblob(2000000)), '00', printf('%.*c', 1000, 'x'))",
    "SELECT length(zeroblob(900000000))",
    "SELECT fts3_tokenizer('simple')",
    "SELECT FTS3_TOKENIZER('simple', x'4141414141414141')",
    "SELECT load_extension('/tmp/x.so')",
    "ATTACH 'other.db' AS other",
    "ATTACH ':memory:' AS other",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_no_connection_loads_code_attaches_files_or_makes_large_values(path, statement):
    for connection in connections(path):
        with closing(connection), pytest.raises(sqlite3.Error):
            connection.execute(statement).fetchall()
    assert [file.name for file in path.parent.iterdir()] == ["taupy.db"]


def test_a_merge_leaves_no_file_attached_and_nothing_else_allowed(path):
    from taupy.profiledb.merge import _attached, _Source

    with (
        ProfileDB.open(path.with_name("b.db"), create=True) as db,
        _attached(db, [_Source(str(path), ())]),
        pytest.raises(sqlite3.Error),
    ):
        db.connection.execute("ATTACH ':memory:' AS other")


# --- files of other tools


@pytest.mark.slow
def test_an_export_of_nsys_with_a_computed_column_is_refused(tmp_path):
    schema = SCHEMA.replace("value TEXT NOT NULL", f"value TEXT AS ({HUGE})", 1)
    file = NsysFile(tmp_path / "small.sqlite", schema=schema)
    file.db.execute("INSERT INTO StringIds (id) VALUES (1)")
    file.db.commit()
    small = file.done()
    assert small.stat().st_size < 200_000
    with pytest.raises(FormatError, match=r"column StringIds.value is computed"):
        list(nsys.read(small, SILENT))


def test_a_column_whose_default_stands_for_much_is_refused(tmp_path):
    path = tmp_path / "tauprofile.db"
    with closing(sqlite3.connect(path)) as connection:
        for table in ("metadata", "timer", "counter", "trial", "thread", "metric"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
        connection.execute(f"ALTER TABLE trial ADD COLUMN name TEXT DEFAULT '{'x' * 5000}'")
        connection.commit()
    with pytest.raises(FormatError, match=r"trial.name is computed"):
        list(tau_sqlite.read(Path(path), SILENT))


def test_a_text_of_a_gigabyte_is_a_message(tmp_path):
    file = NsysFile(tmp_path / "large.sqlite")
    file.call("cudaFree", 0, 10)
    file.db.execute("UPDATE StringIds SET value = CAST(zeroblob(30000000) AS TEXT)")
    with pytest.raises(FormatError, match="string or blob too big"):
        list(nsys.read(file.done(), SILENT))
