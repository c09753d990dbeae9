"""What may stand where the database is looked for, and what becomes of it."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest

from taupy.errors import NOTICES, DatabaseError
from taupy.profiledb import files, migrations, sql
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.merge import merge
from taupy.profiledb.writer import add_profile
from taupy.state.sqlite import in_memory
from tests.builders import small_profile


def stored(path, number=1):
    with ProfileDB.open(path, create=True) as db:
        return add_profile(db, small_profile(number))


def directory(path):
    path.mkdir()
    return "is a directory"


def fifo(path):
    os.mkfifo(path)
    return "is a named pipe"


def device(path):
    path.symlink_to("/dev/null")
    return "is a device"


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return "is a socket"


def dangling_link(path):
    path.symlink_to(path.with_name("nowhere.db"))
    return "is a link to a file that does not exist"


def circular_link(path):
    path.symlink_to(path)
    return "cannot be inspected: Too many levels of symbolic links"


def text_file(path):
    path.write_text("my thesis, chapter 1\n" * 1000)
    return "is not a trial database"


def short_file(path):
    path.write_bytes(b"SQL")
    return "is not a trial database"


def cut_in_the_header(path):
    stored(path)
    path.write_bytes(path.read_bytes()[:50])
    return "is damaged"


def cut_in_the_middle(path):
    stored(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return "is damaged"


def overwritten(path):
    stored(path)
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    return "is damaged"


def another_application(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE trial (id INTEGER)")
    connection.close()
    return "is the SQLite database of another application"


def another_application_id(path):
    stored(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 7")
    connection.close()
    return "is the SQLite database of another application"


def newer_schema(path):
    stored(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {migrations.SCHEMA_VERSION + 1}")
    connection.close()
    return "was written by a newer taupy"


HOSTILE = [
    directory,
    fifo,
    device,
    unix_socket,
    dangling_link,
    circular_link,
    text_file,
    short_file,
    cut_in_the_header,
    cut_in_the_middle,
    overwritten,
    another_application,
    another_application_id,
    newer_schema,
]


def state(folder):
    found = {}
    for path in sorted(folder.iterdir()):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[path.name] = (about.st_mode, about.st_ino, about.st_size, content)
    return found


@pytest.mark.parametrize("create", [True, False], ids=["written", "read"])
@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_what_is_no_trial_database_is_refused_in_one_line_and_untouched(tmp_path, make, create):
    path = tmp_path / "taupy.db"
    expected = make(path)
    before = state(tmp_path)
    with pytest.raises(DatabaseError) as caught, ProfileDB.open(path, create=create):
        pass
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert state(tmp_path) == before


def test_reading_makes_no_database(tmp_path):
    with pytest.raises(DatabaseError, match=r"there is no database .*taupy run SCRIPT"):
        ProfileDB.open(tmp_path / "taupy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_database_is_not_made_in_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DatabaseError, match="cannot be created: the folder"):
        ProfileDB.open(tmp_path / "no" / "taupy.db", create=True)


def test_an_empty_file_is_made_a_database_by_a_writer_only(tmp_path):
    path = tmp_path / "taupy.db"
    path.touch()
    with pytest.raises(DatabaseError, match="is empty"):
        ProfileDB.open(path)
    assert path.stat().st_size == 0
    assert stored(path) == 1


ODD_NAMES = [
    "a?mode=memory",
    "a#b",
    "a%20b",
    ":memory:",
    "two\nlines",
    "file:x.db?mode=ro",
    "-journal",
    " ",
    "ünï 😀",
    os.fsdecode(b"latin1-\xe9"),
    "'quoted\"",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_odd_names_are_plain_file_names(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert stored(name) == 1
    assert os.listdir(tmp_path) == [name]
    with ProfileDB.open(name) as db:
        assert len(db.trials()) == 1


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_no_file_name_is_refused(name):
    with pytest.raises(DatabaseError, match="is not a file name"):
        ProfileDB.open(name, create=True)


def test_a_message_shows_control_characters_of_a_name_escaped(tmp_path):
    with pytest.raises(DatabaseError) as caught:
        ProfileDB.open(tmp_path / "a\x1b[2J\nb")
    assert "a\\x1b[2J\\nb" in str(caught.value)


def test_a_reader_can_not_write(tmp_path):
    stored(tmp_path / "taupy.db")
    with ProfileDB.open(tmp_path / "taupy.db") as db:
        with pytest.raises(DatabaseError, match="open for reading only"):
            db.rename(1, "other")
        with pytest.raises(DatabaseError, match="is read-only"):
            db.rows("DELETE FROM trial")
        assert len(db.trials()) == 1


def as_nobody(work):
    """What `work()` gives in a child process without root's rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setegid(65534)
                os.seteuid(65534)
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as answers:
        return answers.read()


@pytest.fixture
def open_folder():
    """A folder that everybody can enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_a_read_only_file_is_read_and_not_written(open_folder):
    path = open_folder / "taupy.db"
    stored(path)
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def read():
        with ProfileDB.open(path) as db:
            return str(len(db.trials()))

    def write():
        return str(stored(path, 2))

    assert as_nobody(read) == "1"
    assert "is read-only, or its folder is" in as_nobody(write)
    path.chmod(0o000)
    assert "cannot be read: Permission denied" in as_nobody(read)


def test_a_database_in_a_folder_without_permission_is_refused(open_folder):
    open_folder.chmod(0o555)
    answer = as_nobody(lambda: str(stored(open_folder / "taupy.db")))
    assert "cannot be opened; check the permissions" in answer


@pytest.fixture
def killed_while_writing(tmp_path):
    """A database whose last writer was killed after changed pages had reached the file."""
    path = tmp_path / "taupy.db"
    stored(path)
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 5')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('UPDATE trial SET name = hex(zeroblob(500000))')\n"
        "connection.execute('UPDATE timer SET name = hex(zeroblob(500000))')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    assert path.with_name("taupy.db-journal").stat().st_size > 0
    return path


def test_a_reader_undoes_what_a_killed_writer_left(killed_while_writing):
    with ProfileDB.open(killed_while_writing) as db:
        assert db.readonly
        assert [trial.name for trial in db.trials()] == ["1"]
        assert db.verify() == []


def test_a_writer_undoes_what_a_killed_writer_left(killed_while_writing):
    assert stored(killed_while_writing, 2) == 2
    with ProfileDB.open(killed_while_writing) as db:
        assert db.verify() == []


def test_a_write_ahead_log_of_others_is_read_and_undone_by_a_writer(tmp_path):
    path = tmp_path / "taupy.db"
    stored(path)
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("UPDATE trial SET name = 'from the log'")
    other.commit()
    with ProfileDB.open(path) as db:
        assert db.latest().name == "from the log"
    other.close()
    stored(path, 2)
    assert os.listdir(tmp_path) == ["taupy.db"]
    with ProfileDB.open(path) as db:
        assert db.rows("PRAGMA journal_mode") == [("delete",)]


def test_a_second_opening_keeps_the_locks_of_the_first(tmp_path):
    """POSIX drops a process's locks on a file with any descriptor of it that closes."""
    path = tmp_path / "taupy.db"
    stored(path)
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
    )
    with ProfileDB.open(path, readonly=False) as first, first.transaction():
        ProfileDB.open(path).close()
        other = subprocess.run([sys.executable, "-c", code, path], capture_output=True)
    assert b"database is locked" in other.stderr


def version_two(database):
    database["trial"].add_column("colour", str)
    database.execute("UPDATE trial SET colour = 'blue'")


def fails_half_way(database):
    database["trial"].add_column("colour", str)
    database.execute("INSERT INTO nonsense VALUES (1)")


def with_step(monkeypatch, step):
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, step))
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", len(migrations.UPGRADES))


def test_an_older_file_is_brought_up_to_date_by_a_writer(tmp_path, monkeypatch):
    path = tmp_path / "taupy.db"
    stored(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP VIEW trials")
        connection.execute("CREATE VIEW outdated AS SELECT 1")
    connection.close()
    with_step(monkeypatch, version_two)
    with ProfileDB.open(path, readonly=False) as db:
        assert db.rows("SELECT name, colour FROM trial") == [("1", "blue")]
        assert db.rows("PRAGMA user_version") == [(migrations.SCHEMA_VERSION,)]
        assert db.rows("SELECT name FROM sqlite_schema WHERE name = 'outdated'") == []
        assert len(db.rows("SELECT * FROM trials")) == 1
        assert db.verify() == []


ADDED = {  # by version; what a newer one builds on is not named again
    14: "DROP VIEW lines; CREATE VIEW lines AS SELECT 'older';"
    "ALTER TABLE line DROP COLUMN on_cpu;",
    13: "DROP VIEW %s; CREATE VIEW %s AS SELECT 'older';" * 2 % (
        *("trials", "trials", "function_summary", "function_summary"),
    ) + "ALTER TABLE thread DROP COLUMN %s;" * 3 % ("count", "least_ns", "most_ns"),
    12: "DROP VIEW lines; CREATE VIEW lines AS SELECT 'older';"
    "ALTER TABLE line DROP COLUMN count; ALTER TABLE line DROP COLUMN inclusive_ns;",
    11: "DROP VIEW lines; DROP TABLE source; DROP TABLE operator_input; DROP TABLE line;",
    10: "ALTER TABLE layer DROP COLUMN backward_passes;",
    9: "DROP VIEW steps; CREATE VIEW steps AS SELECT 'older';",
    8: "DROP TABLE module;",
    7: "DROP TABLE layer;",
    6: "DROP TABLE collective; DROP TABLE communicator;",
    5: "DROP TABLE kernel_code_line;" + "ALTER TABLE kernel_code DROP COLUMN %s;" * 4 % (
        "is_kernel", "block", "most_threads", "dynamic_shared"
    ),
    4: "DROP VIEW steps; DROP TABLE step; DROP TABLE step_value;",
    3: "DROP TABLE kernel_code%s;" * 4 % ("", "_count", "_access", "_loop"),
    2: "DROP VIEW timeline; DROP TABLE sample;",
}  # fmt: skip


def made_older(path, version):
    with sqlite3.connect(path) as connection:
        newer = "".join(ADDED[number] for number in ADDED if number > version)
        connection.executescript(f"{newer} PRAGMA user_version = {version}")
    connection.close()


def content(db):
    """All rows of all tables and views of the current schema."""
    names = {*migrations.VIEWS, *(name for (name,) in in_new_file("table"))}
    return {name: db.rows(f'SELECT * FROM "{name}"') for name in names - {"sqlite_sequence"}}


def in_new_file(kind):
    with closing(in_memory()) as connection:
        migrations.migrate(connection)
        return connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = ?", (kind,)
        ).fetchall()


def test_a_new_file_is_made_without_altering_tables():
    """After each ALTER TABLE, SQLite reads the whole schema again."""
    statements = []
    with closing(in_memory()) as connection:
        connection.set_trace_callback(statements.append)
        migrations.migrate(connection)
    assert any(statement.startswith("CREATE TABLE line ") for statement in statements)
    assert not any(statement.startswith("ALTER") for statement in statements)


@pytest.mark.parametrize("version", range(1, migrations.SCHEMA_VERSION))
def test_a_file_of_an_older_version_is_read_as_it_is_and_upgraded_by_a_writer(tmp_path, version):
    path, target = tmp_path / "taupy.db", tmp_path / "target.db"
    stored(path)
    with ProfileDB.open(path, readonly=False) as db:
        schema = dict(db.rows("SELECT name, sql FROM sqlite_schema"))
        with db.transaction() as connection:
            connection.execute(
                "INSERT INTO kernel_code VALUES ('m', 'k', 'k', 'c', 'f', 'n', 1, 1, 1, 1, '', 1,"
                " 1, 1, 1, 1, 1, '', 0, 0, 1, NULL, NULL, NULL)"
            )
            connection.execute(
                "INSERT INTO layer SELECT 1, 0, max(id), 1, 1, '', '', 0, 0, 1, 1, 1, 1, '', NULL"
                "  FROM timer"
            )
    made_older(path, version)
    before = path.read_bytes()
    with ProfileDB.open(path) as db:
        seen = content(db)
        _, rows = sql.run_sql(db, "SELECT count(*) FROM steps")
        assert ([*rows], db.verify()) == ([(0,)], [])
    merge(str(target), [str(path)])
    assert path.read_bytes() == before
    assert (sorted(os.listdir(tmp_path)), NOTICES) == (["target.db", "taupy.db"], [])

    with ProfileDB.open(path, readonly=False) as db:
        assert db.rows("PRAGMA user_version") == [(migrations.SCHEMA_VERSION,)]
        upgraded = dict(db.rows("SELECT name, sql FROM sqlite_schema"))
        # Versions of sqlite-utils quote the names of views in several ways.
        assert {name: sql and re.sub(r"^CREATE VIEW (\w+) ", r'CREATE VIEW "\1" ', sql)
                for name, sql in upgraded.items()} == schema  # fmt: skip
        assert (content(db), db.verify()) == (seen, [])
    kept = tmp_path / f"taupy.schema{version}.db"
    (notice,) = NOTICES
    assert str(kept) in notice
    with ProfileDB.open(kept) as db, ProfileDB.open(target) as merged:
        assert db.rows("PRAGMA user_version") == [(version,)]
        assert content(db) == content(merged) == seen


def test_an_empty_file_of_ours_takes_all_steps(tmp_path, monkeypatch):
    path = tmp_path / "taupy.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {files.APPLICATION_ID}")
    connection.close()
    with_step(monkeypatch, version_two)
    with ProfileDB.open(path, readonly=False) as db:
        assert db.rows("SELECT colour FROM trial") == []


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "taupy.db"
    stored(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        with_step(patch, fails_half_way)
        with pytest.raises(DatabaseError, match="no such table: nonsense"):
            ProfileDB.open(path, readonly=False)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["taupy.db"]
    with ProfileDB.open(path) as db:
        assert len(db.trials()) == 1


def test_an_older_file_that_cannot_be_kept_is_not_upgraded(open_folder):
    path = open_folder / "taupy.db"
    stored(path)
    made_older(path, 9)
    path.chmod(0o666)
    open_folder.chmod(0o755)
    assert as_nobody(lambda: str(len(ProfileDB.open(path).trials()))) == "1"
    answer = as_nobody(lambda: str(ProfileDB.open(path, readonly=False)))
    assert "no copy can be kept before it is upgraded" in answer


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_making_a_database_leaves_pandas_out_and_importable(tmp_path):
    code = (
        "import sys\n"
        "from taupy.profiledb.database import ProfileDB\n"
        "ProfileDB.open(sys.argv[1], create=True).close()\n"
        "print([name in sys.modules for name in ('sqlite_utils', 'pandas', 'numpy')])\n"
        "import importlib.util\n"
        "print(importlib.util.find_spec('json') is not None)\n"
        "import numpy\n"
        "print(numpy.arange(3).sum())\n"
    )
    pytest.importorskip("numpy")
    assert run_python(code, tmp_path / "t.db") == "[False, False, False]\nTrue\n3\n"


def test_reading_imports_nothing_heavy(tmp_path):
    stored(tmp_path / "t.db")
    code = (
        "import sys\n"
        "from taupy.profiledb import api, metrics, reader, selector, sql, writer\n"
        "from taupy.profiledb.database import ProfileDB\n"
        "with ProfileDB.open(sys.argv[1]) as db:\n"
        "    metrics.flat_profile(db, selector.trial(db).id)\n"
        "print(sorted({'sqlite_utils', 'pandas', 'numpy', 'rich', 'click'} & set(sys.modules)))\n"
    )
    assert run_python(code, tmp_path / "t.db") == "[]\n"


def test_a_file_whose_tables_are_being_created_is_not_of_another_application(tmp_path):
    """Between two questions about it, another process creates them."""
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, timeout=0, isolation_level=None)

    class Interrupted(sqlite3.Connection):
        def execute(self, sql, *parameters):
            if sql == "PRAGMA user_version" and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")
                migrations.migrate(other)
                with suppress(sqlite3.OperationalError):  # locked
                    other.execute("COMMIT")
            return super().execute(sql, *parameters)

    connection = sqlite3.connect(path, isolation_level=None, factory=Interrupted)
    assert files.checked_version(connection, str(path)) == 0
    assert not connection.in_transaction
    other.execute("COMMIT")
    assert files.checked_version(other, str(path)) == migrations.SCHEMA_VERSION
