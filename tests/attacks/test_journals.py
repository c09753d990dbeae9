"""What lies beside a database: journals and logs of others, names of other files, pipes.

Another user is played by the modes of folders, or by another user's number.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile

import pytest

from taupy.errors import DatabaseError
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.state import changers, sqlite
from tests.attacks.journals import deletes, leave_journal, make_it_name
from tests.builders import small_profile
from tests.in_process import taupy
from tests.unit.formats.nsys_files import training


@pytest.fixture(autouse=True)
def without_trust(monkeypatch):
    monkeypatch.setattr(sqlite, "_trusts_folders", False)


@pytest.fixture
def path(tmp_path):
    """A database in a folder of one's own."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o755)
    with ProfileDB.open(folder / "taupy.db", create=True) as db:
        add_profile(db, small_profile(1))
    return folder / "taupy.db"


def given_away(path, monkeypatch):
    if os.geteuid() == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr(changers, "user", lambda: 4242)


def shared(path):
    path.parent.chmod(0o2775)


def open_to_all(path):
    path.parent.chmod(0o777)


def sticky(path):
    path.parent.chmod(0o1777)


def with_a_writable_database(path):
    path.chmod(0o664)


def with_a_writable_journal(path):
    path.with_name("taupy.db-journal").chmod(0o666)


def below_a_shared_folder(path):
    path.parent.parent.chmod(0o775)


OTHERS_WRITE = [
    shared,
    open_to_all,
    sticky,
    with_a_writable_database,
    with_a_writable_journal,
    below_a_shared_folder,
]


WRITING = (
    "run", "import", "merge", "pull", "push", "trials", "gate", "sweep", "derive", "query",
    "export", "report", "pprof", "compare", "serve", "roofline", "doctor", "ranks", "layers",
    "steps",
)  # fmt: skip


def read(path):
    with ProfileDB.open(path) as db:
        return [trial.name for trial in db.trials()]


def write(path, number=2):
    with ProfileDB.open(path, create=True) as db:
        return add_profile(db, small_profile(number))


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize("where", OTHERS_WRITE, ids=lambda where: where.__name__)
def test_a_journal_is_not_rolled_back_where_others_can_write(path, where, use):
    journal = leave_journal(path)
    where(path)
    before = path.read_bytes(), journal.read_bytes()
    with pytest.raises(DatabaseError, match=r"taupy.db-journal .*--trust-folder"):
        use(path)
    assert (path.read_bytes(), journal.read_bytes()) == before


@pytest.mark.parametrize("what", ["taupy.db", "taupy.db-journal", "."])
def test_a_journal_is_not_rolled_back_if_another_user_owns_a_part(path, what, monkeypatch):
    leave_journal(path)
    given_away(path.parent / what, monkeypatch)
    for use in (read, write):
        with pytest.raises(DatabaseError, match=r"belongs to user"):
            use(path)


@pytest.mark.parametrize("where", OTHERS_WRITE[:4], ids=lambda where: where.__name__)
def test_a_plain_database_is_used_where_others_can_write(path, where):
    where(path)
    assert read(path) == ["1"]
    assert write(path) == 2
    assert taupy("trials", "--db", path).returncode == 0


def test_a_journal_of_ones_own_is_rolled_back(path):
    leave_journal(path)
    assert read(path) == ["1"]
    leave_journal(path)
    assert write(path) == 2


def test_with_trust_folder_a_journal_is_rolled_back(path):
    leave_journal(path)
    shared(path)
    refused = taupy("trials", "--db", path)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"({changers.name_of(os.geteuid())}'s)" in refused.stderr
    assert taupy("trials", "--db", path, "--trust-folder").returncode == 0
    assert not path.with_name("taupy.db-journal").exists()


def test_a_reader_rolls_no_journal_back_that_came_after_the_look(path, monkeypatch):
    journal = leave_journal(path)
    shared(path)
    monkeypatch.setattr(sqlite, "look_beside", lambda *_, **__: None)
    with pytest.raises(DatabaseError, match=r"taupy.db-journal .*--trust-folder"):
        read(path)
    assert journal.exists()


@pytest.mark.slow
def test_a_run_goes_on_with_a_journal_only_if_it_is_told_to_trust(runs, native):
    runs.run("")
    journal = leave_journal(runs.database)
    runs.folder.chmod(0o777)
    refused = runs.run("print('done')")
    assert (refused.returncode, refused.stdout) == (0, "done\n")
    assert "--trust-folder" in refused.stderr and journal.exists()
    assert list(runs.folder.glob("*.taupy-run")), "the profile is saved beside it"
    done = runs.run("print('done')", "--trust-folder")
    assert (done.returncode, done.stdout, journal.exists()) == (0, "done\n", False)
    assert runs.one("SELECT count(*) FROM trial") == 2
    leave_journal(runs.database)
    repeated = runs.run("print('done')", "--trust-folder", "--repeat", "2")
    assert repeated.returncode == 0, repeated.stderr
    assert runs.one("SELECT count(*) FROM trial") == 4


def test_whom_a_run_trusts_is_not_in_a_rescue_file(runs, native):
    (runs.folder / "taupy.db").mkdir()
    runs.run("", "--trust-folder")
    (rescued,) = runs.folder.glob("*.taupy-run")
    with zipfile.ZipFile(rescued) as archive:
        assert b"trust_folder" not in archive.read("run")


@pytest.mark.parametrize("command", WRITING)
def test_every_command_that_writes_can_be_told_to_trust(command):
    text = " ".join(taupy(*command.split(), "--help").stdout.split())
    assert "--trust-folder" in text and "decides what is in the database" in text


@pytest.mark.parametrize("trusts", [False, True])
@pytest.mark.parametrize("use", [read, write])
def test_a_journal_that_names_another_file_is_never_rolled_back(
    path, tmp_path, use, trusts, monkeypatch
):
    victim = tmp_path / "thesis.tex"
    victim.write_text("chapter 1")
    make_it_name(leave_journal(path), victim)
    monkeypatch.setattr(sqlite, "_trusts_folders", trusts)
    with pytest.raises(DatabaseError, match="names another file"):
        use(path)
    assert victim.exists()
    copy = shutil.copytree(path.parent, tmp_path / "copy") / path.name
    if sqlite3.sqlite_version_info < (3, 41):  # 3.40 was seen to, 3.53 not
        assert deletes(copy, victim), "SQLite itself would delete it"


def leave_log(path):
    """A write-ahead log with other content, left by a process that was killed."""
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA journal_mode = WAL')\n"
        "connection.execute(\"UPDATE trial SET name = 'from the log'\")\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    assert path.with_name("taupy.db-wal").stat().st_size > 0


@pytest.mark.parametrize("use", [read, write])
def test_a_log_is_not_used_where_others_can_write(path, use):
    leave_log(path)
    shared(path)
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"taupy.db-(wal|shm) .*--trust-folder"):
        use(path)
    assert path.read_bytes() == before
    path.parent.chmod(0o755)
    assert read(path) == ["from the log"]


def test_a_writer_in_a_shared_folder_waits_for_one_that_is_at_work(path):
    shared(path)
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute(\"UPDATE trial SET name = 'new'\")\n"
        "print('writing', flush=True)\n"
        "sys.stdin.readline()\n"
        "connection.execute('COMMIT')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        other.stdout.readline()
        assert path.with_name("taupy.db-journal").exists()
        assert read(path) == ["1"], "readers do not wait"
        with pytest.raises(sqlite.Busy):
            sqlite.look_beside(str(path), writes=True, patience_s=0.2)
        other.stdin.write("\n")
        other.stdin.flush()
        assert write(path) == 2
    assert len(read(path)) == 2


# --- what is no file


def test_a_program_ends_although_a_pipe_lies_beside_the_database(runs, native):
    os.mkfifo(runs.folder / "taupy.db-journal")
    ended = runs.run("print('done')")
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert "taupy.db-journal is a named pipe" in ended.stderr
    assert list(runs.folder.glob("*.taupy-run")), "the profile is saved beside it"


def test_a_link_of_another_user_is_no_database(path, tmp_path, monkeypatch):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert read(link) == ["1"]
    if os.geteuid() == 0:
        os.chown(link, 4242, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(changers, "user", lambda: 4242)
    with pytest.raises(DatabaseError, match="is a link of user"):
        read(link)


# --- imports, merges


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_an_import_does_not_wait_for_a_pipe_beside_the_file(tmp_path, suffix):
    source = tmp_path / "report.sqlite"
    training(source)
    os.mkfifo(f"{source}{suffix}")
    found = taupy("import", source, "--format", "nsys", "--db", tmp_path / "taupy.db")
    assert found.returncode == 1
    assert "is a named pipe" in found.stderr


def test_merge_does_not_roll_back_a_source_of_others(path, tmp_path):
    target = tmp_path / "target.db"
    leave_journal(path)
    shared(path)
    found = taupy("merge", path, "--into", target)
    assert found.returncode == 1
    assert "--trust-folder" in found.stderr
    assert path.with_name("taupy.db-journal").exists()


@pytest.mark.slow
def test_the_doctor_says_in_one_line_what_others_can_change(path, tmp_path):
    state, project = tmp_path / "above" / "state", path.with_name("pyproject.toml")
    state.parent.mkdir()
    state.mkdir(mode=0o700)
    project.touch(mode=0o644)

    def line():
        found = taupy("doctor", "--db", path, cwd=path.parent, env=environment)
        return next(line for line in found.stdout.splitlines() if "other users" in line)

    environment = {**os.environ, "TAUPY_STATE_DIR": str(state)}
    assert line().endswith("cannot change the database, the state folder or the settings")
    for place, mode, name in (
        (path.parent, 0o1777, "the database or its folder"),
        (path, 0o666, "the database or its folder"),
        (project, 0o664, "the settings"),
        (state.parent, 0o777, "the state folder"),
    ):
        before = place.stat().st_mode
        place.chmod(mode)
        assert f"can change {name} (" in line() or f"; {name} (" in line()
        place.chmod(before)
    assert "cannot" in line()


@pytest.mark.slow
def test_only_one_module_opens_sqlite_files():
    import ast
    from pathlib import Path

    import taupy as package

    opening = set()
    for file in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            call = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if call.startswith("sqlite3.connect(") and call != "sqlite3.connect(':memory:')":
                opening.add(file.name)
    assert opening == {"sqlite.py"}
    assert sqlite3.sqlite_version_info > (3, 37)
