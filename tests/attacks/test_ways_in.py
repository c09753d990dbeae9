"""Each attack on each way in: every kind of command, imports, the server, pages, notebooks."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import socket

import pytest

import taupy as package
from taupy.commands import serve
from taupy.errors import TaupyError
from taupy.model.rows import TrialRow
from taupy.notebook import Database, Trial
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.attacks import test_schemas as schemas
from tests.attacks.journals import leave_journal, make_it_name
from tests.builders import small_profile
from tests.in_process import taupy


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        for number in (1, 2):
            add_profile(db, small_profile(number))
        ROWS[:] = db.trials()
    return path


# --- attacks: each makes something of a path, and returns what is said of it


def pipe(path):
    os.mkfifo(path)
    return "is a named pipe"


def folder(path):
    path.mkdir()
    return "is a (folder|directory)"


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return "is a socket"


def device(path):
    path.symlink_to("/dev/zero")
    return "is a (device|symbolic link)"


def loop(path):
    path.symlink_to(path.name)
    return "cannot be inspected|is a symbolic link"


def holes(path):
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    return "is not a trial database"


NO_FILES = (pipe, folder, a_socket, device, loop)
ATTACKS = {
    **{kind.__name__: kind for kind in (*NO_FILES, holes)},
    **{
        f"{kind.__name__}{suffix}": lambda path, kind=kind, suffix=suffix: kind(
            path.with_name(f"taupy.db{suffix}")
        )
        for kind in (pipe, a_socket, device)
        for suffix in ("-journal", "-wal", "-shm")
    },
}
ON_A_COPY = {make.__name__: make for make in schemas.HOSTILE}


def on_a_copy(attack):
    ON_A_COPY[attack.__name__] = attack


@on_a_copy
def journal_that_names_a_file(path):
    victim = path.with_name("victim")
    victim.write_text("chapter 1")
    make_it_name(leave_journal(path), victim)
    return "names another file"


@on_a_copy
def journal_where_others_write(path):
    leave_journal(path)
    path.parent.chmod(0o777)
    return "--trust-"


# --- ways in


def command(*words):
    return lambda path, target: taupy(*words, "--db", path, cwd=path.parent)


def notebook(owner, name):
    """A method of an object that a notebook has, since before the attack."""

    def way(path, target):
        database = Database(path)
        chosen = Trial(database, ROWS[0]) if owner is Trial else database
        getattr(chosen, name)(*POSITIONAL.get(name, ()), **NAMED.get(name, {}))

    return way


ROWS: list[TrialRow] = []
"""Of the trials in a good database."""

POSITIONAL = {
    "compare": (1, 2), "gate": ("time > +5%",), "sql": ("SELECT * FROM trials",), "trial": (1,),
    "pivot": (1, 2), "sweep": (1, 2), "trials": ("latest",), "kernel": ("f",),
}  # fmt: skip
NAMED = {
    "compare": {"table": {"x": "/(.)/"}}, "gate": {"baseline": 1}, "sweep": {"over": "threads"},
    "pivot": {"rows": ["routine"], "table": {"x": "*"}},
}  # fmt: skip


def methods(owner):
    """What a notebook may call, and what it calls to show the object."""
    return [
        name
        for name in dir(owner)
        if inspect.isfunction(getattr(owner, name))
        and (not name.startswith("_") or name == "_repr_html_")
    ]


NOTEBOOK = {
    f"notebook's {owner.__name__}.{name}": notebook(owner, name)
    for owner in (Database, Trial)
    for name in methods(owner)
}


READING = {
    "trials": command("trials"),
    "pprof": command("pprof"),
    "report": command("report"),
    "page": command("report", "-o", "page.html"),
    "roofline": command("roofline", "-o", "page.html"),
    "compare": command("compare", "1", "2"),
    "pivot": command("pivot", "experiment"),
    "query": command("query", "SELECT * FROM trials"),
    "export": command("export", "1", "-o", "x.txt", "--format", "collapsed"),
    "push": command("push", "--to", "postgresql://nobody@127.0.0.1:1/x"),
    "serve": lambda path, target: taupy("serve", path, "--port", "0"),
    "doctor": lambda path, target: taupy("doctor", path),
    "merge from": lambda path, target: taupy("merge", path, "--into", target),
    "import": lambda path, target: taupy("import", path, "--db", target),
    "import as nsys": lambda path, target: taupy(
        "import", path, "--format", "nsys", "--db", target
    ),
    "notebook": lambda path, target: package.open(path),
    **NOTEBOOK,
}
WRITING = {
    "tag": command("trials", "tag", "1", "x"),
    "derive": command("derive", "add", "a", "time * 2"),
    "delete": command("trials", "delete", "2", "--yes"),
    "upgrade": lambda path, target: taupy("doctor", "--upgrade", path),
}
WITH_MESSAGES_OF_THEIR_OWN = ("import", "import as nsys")


def contents(folder):
    return {
        file.name: file.read_bytes() if file.is_file() and file.stat().st_size < 1 << 30 else b""
        for file in folder.iterdir()
        if file.suffix not in (".html", ".txt")
    }


def check(path, whole, target, expected, monkeypatch):
    """That each way in refuses what lies at the path, in one line, and changes nothing."""
    monkeypatch.setattr(serve, "_serve", lambda *_: pytest.fail("it is served"))
    before = contents(path.parent)
    merging = {"merge into": lambda path, target: taupy("merge", whole, "--into", path)}
    for name, way in {**READING, **WRITING, **merging}.items():
        try:
            found = way(path, target)
        except TaupyError as problem:
            said = [str(problem)]
        else:
            assert found is not None and found.returncode, name
            said = (found.stderr or found.stdout).splitlines()
            assert len(said) == 1 or name == "doctor", (name, said)
        text = " ".join(" ".join(said).split())
        assert "Traceback" not in text, name
        if name not in WITH_MESSAGES_OF_THEIR_OWN:
            assert re.search(expected, text), (name, text)
        assert contents(path.parent) == before, name
        assert not target.exists(), name


@pytest.fixture
def place(tmp_path):
    (tmp_path / "own").mkdir(mode=0o755)
    return tmp_path / "own" / "taupy.db"


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_no_database_is_refused_on_every_way_in(
    place, whole, tmp_path, attack, monkeypatch
):
    if "-" in attack:
        shutil.copy(whole, place)
    check(place, whole, tmp_path / "target.db", ATTACKS[attack](place), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ON_A_COPY)
def test_a_hostile_database_is_refused_on_every_way_in(place, whole, tmp_path, attack, monkeypatch):
    shutil.copy(whole, place)
    check(place, whole, tmp_path / "target.db", ON_A_COPY[attack](place), monkeypatch)


@pytest.mark.slow
def test_each_way_of_a_notebook_leads_into_a_good_database(whole, tmp_path):
    for name, way in NOTEBOOK.items():
        try:
            way(whole, tmp_path)
        except TaupyError:  # there is no sweep, and nothing ran on a GPU
            assert name.endswith((".sweep", ".launches")), name


# --- other things that are opened by name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = " + b"[" * 20_000, "is nested too deeply"),
        (b"a = " + b"9" * 5_000, "Exceeds the limit"),
        (b"a = '\xff'", "can't decode"),
        (b'"\\\\g<x>" = "/(.)/"', "unknown group name 'x'"),
        (b'"\\u001b[2J" = 3', "is neither a pattern nor a list"),
    ],
)
def test_a_hostile_table_of_names_is_one_line(whole, tmp_path, content, words):
    (tmp_path / "table.toml").write_bytes(content)
    for words_of in (("compare", "1", "2"), ("pivot", "routine")):
        found = taupy(
            *words_of, "--match-table", tmp_path / "table.toml", "--db", whole, cwd=tmp_path
        )
        assert found.returncode, found.stdout
        (line,) = found.stderr.splitlines()
        assert words in line and "\x1b" not in line, line


@pytest.mark.parametrize("kind", [pipe, a_socket, device])
def test_what_a_user_names_is_opened_only_if_it_is_a_file(tmp_path, whole, kind):
    folder = tmp_path / "named"
    folder.mkdir()
    kind(folder / "x.cubin")
    named = folder / "x.cubin"
    for words in (
        ["static", folder],
        ["static", named],
        ["compare", "1", "2", "--match-table", named, "--db", whole],
        ["import", named, "--db", tmp_path / "new.db"],
    ):
        found = taupy(*words)
        assert found.returncode, words
        assert found.stderr.count("\n") == 1 and "Traceback" not in found.stderr, words
        assert "is a" in found.stderr or "neither a file nor a folder" in found.stderr, words
