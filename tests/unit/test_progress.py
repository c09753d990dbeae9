"""Every command whose work may take a second shows on a terminal that it works; in a pipe, nothing.
Ctrl-C ends this work with one line.

The terminal is real (a pty). What takes long is made to take as long as it takes to see the bar.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import threading
from importlib import import_module
from types import SimpleNamespace

import pytest

from taupy.answers import ANSWERS, EXCEPTIONS
from taupy.answers.answer import module
from taupy.commands import COMMANDS, bar, main
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile
from tests.unit.roofline.build import cpu_trial

HERE = str(os.getpid())
STORE = "--db postgresql://nobody@localhost:1/none"
WORK = {
    "report 1": "taupy.commands.report report",
    "report 1 -o p.html": "taupy.report.contents of_trial",
    "report 1 2 -o p.html": "taupy.study.versus of_sides",
    "report running": "taupy.record.so_far so_far",
    "pprof 1": "taupy.commands.pprof Request.views",
    "compare 1 2": "taupy.answers.compare compared",
    "gate --baseline a.py --fail-on time>+5% -- b.py": "taupy.commands.gate _Session.conclusion",
    "sweep n": "taupy.commands.sweep Sweep",
    "pivot": "taupy.study.pivot pivot_table",
    "static b.db": "taupy.commands.static read",
    "roofline 3": "taupy.commands.roofline trial_work",
    "roofline 3 -o r.html": "taupy.roofline.tab html_page",
    "ceilings list": "taupy.profiledb.ceilings ceilings",
    "ceilings --cpu": "taupy.commands.ceilings _processors",
    "avail": "taupy.commands.avail _views",
    "trials": "ProfileDB.trials",
    "trials show 1": "taupy.profiledb.query threads",
    "trials search x": "taupy.profiledb.search trials",
    "trials delete 1 --yes": "ProfileDB.delete",
    "trials delete 1 --yes --compact": "ProfileDB.compact",
    "query 'select 1'": "taupy.commands.query run_sql",
    "serve b.db": "taupy.profiledb.pages columns",
    "import x.txt --format collapsed": "taupy.commands.import_ _profiles",
    "export 1 -o x.json --format speedscope": "taupy.profiledb.reader read_profile",
    "export 1 -o y.json --format speedscope": "taupy.formats.registry exported",
    "merge new.db b.db": "taupy.profiledb.merge merge",
    f"merge {STORE.split()[1]} b.db": "taupy.store.push push",
    f"store create --files f {STORE}": "taupy.store.create create",
    f"store check {STORE}": "taupy.store.catalogue Store.open",
    f"store compact {STORE}": "taupy.store.catalogue Store.open",
    f"store retain --days 1 {STORE}": "taupy.store.retain expired",
    f"push --to {STORE.split()[1]}": "taupy.store.push push",
    f"pull 1 --from {STORE.split()[1]}": "taupy.store.pull pull",
    f"pull --from {STORE.split()[1]}": "taupy.store.reading StoreDB",
    f"places 1 {STORE}": "taupy.profiledb.opening opened",
    "clean": "taupy.commands.packages brought",
    "doctor": "taupy.commands.doctor_gpu checks",
    "doctor b.db": "taupy.profiledb.audit audit",
    "setup torch": "taupy.commands.setup _made",
    f"top {HERE} --once": "taupy.commands.attach Watch.go_on",
    f"attach {HERE}": "taupy.commands.attach Watch.go_on",
    f"dump {HERE}": "taupy.commands.dump _stacks",
    **{
        f"{name} 1": f"{module(name).__name__} views"
        for name in ANSWERS if (name, "command") not in EXCEPTIONS
    },
    "kernel x": "taupy.profiledb.kernel_codes stored",
}  # fmt: skip
"""Commands, and what takes its time in them."""
NAMES = [line.replace(HERE, "PID") for line in WORK]
AT_ONCE = {
    "run": "it becomes the program; what stores the trial has a test of its own below",
    "derive": "reads names and formulas",
    "completion": "prints a text",
    "help": "prints a text",
}


class Reached(Exception):
    """The work has begun."""


@pytest.fixture
def screen(monkeypatch):
    """A terminal for `sys.stderr`: what has been drawn on it, and an event for that."""
    ours, theirs = os.openpty()
    stream = os.fdopen(theirs, "w")
    seen = SimpleNamespace(text=b"", drawn=threading.Event(), stream=stream)

    def read():
        try:
            while piece := os.read(ours, 4096):
                seen.text += piece
                if "━".encode() in seen.text:
                    seen.drawn.set()
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(bar, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(bar, "_INTERVAL_SECONDS", 0.001)
    yield seen
    stream.close()
    reader.join(10)
    os.close(ours)


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    made = [tmp_path_factory.mktemp("databases") / name for name in ("taupy.db", "b.db")]
    for path in made:
        with ProfileDB.open(path, create=True) as db:
            add_profile(db, small_profile(1))
            add_profile(db, small_profile(2))
            add_profile(db, cpu_trial(3))
    return made


@pytest.fixture
def folder(databases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    for path in databases:
        shutil.copy(path, tmp_path)
    (tmp_path / "x.txt").write_text("main (a.py:1);f (a.py:2) 3\n")
    return tmp_path


def holder(place):
    """The module or class that has a name, and the name."""
    module, _, path = place.rpartition(" ")
    of = import_module(module) if module else sys.modules[__name__]
    *classes, name = path.split(".")
    for one in classes:
        of = getattr(of, one)
    return of, name


def test_every_command_is_known_to_work_long_or_not():
    assert {line.split()[0] for line in WORK} | {*AT_ONCE} == {*COMMANDS}


@pytest.mark.parametrize("line", WORK, ids=NAMES)
def test_work_that_takes_long_is_seen_on_a_terminal(line, folder, capsys, screen, monkeypatch):
    reached = []

    def works(*_, **__):
        reached.append(screen.drawn.wait(20 if bar._open else 0))
        raise Reached

    prepared(line, monkeypatch)
    monkeypatch.setattr(sys, "stderr", screen.stream)
    monkeypatch.setattr(*holder(WORK[line]), works)
    with pytest.raises(Reached):
        main(shlex.split(line))
    assert reached == [True], screen.text
    assert "━" not in capsys.readouterr().out


@pytest.mark.parametrize("line", WORK, ids=NAMES)
def test_in_a_pipe_nothing_is_drawn(line, folder, monkeypatch):
    def works(*_, **__):
        assert not bar._open
        raise Reached

    prepared(line, monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(*holder(WORK[line]), works)
    with pytest.raises(Reached):
        main(shlex.split(line))


CHANGE = {
    "ceilings --cpu": "the database in which they would be stored",
    "trials delete 1 --yes --compact": "the trial is deleted, and the file as large as it was",
}
"""What has been changed by then, as a whole."""


@pytest.mark.parametrize("line", WORK, ids=NAMES)
def test_ctrl_c_ends_the_work_with_one_line(line, folder, monkeypatch, capsys):
    def works(*_, **__):
        raise KeyboardInterrupt

    def files():
        return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    prepared(line, monkeypatch)
    before = files()
    monkeypatch.setattr(*holder(WORK[line]), works)
    assert main(shlex.split(line)) == 130
    *_, last = capsys.readouterr().err.splitlines()
    kept = "nothing is left half written"
    if line.startswith("setup"):
        kept = "the libraries named above are kept, and `taupy setup torch` makes the rest"
    assert last == f"taupy: stopped by Ctrl-C; {kept}"
    assert files() == before or line in CHANGE


def prepared(line, monkeypatch):
    """What a command needs to come to its work."""
    if line.startswith("gate"):
        from taupy.commands.gate import _Session

        monkeypatch.setattr(_Session, "run", lambda session: setattr(session, "pairs", 1))
    if line.startswith("setup"):
        from taupy.instrument import torch_library

        torch = SimpleNamespace(version="2", folder="/torch")
        monkeypatch.setattr(torch_library, "installed", lambda _: torch)
    if line == "report running":
        from taupy.commands import running

        run = SimpleNamespace(path="x", settings=None)
        monkeypatch.setattr(running, "here", lambda _: [run])


def test_a_run_that_is_being_stored_says_so_on_the_terminal_of_the_program(screen, monkeypatch):
    from taupy.commands import storer

    monkeypatch.setattr(storer, "_STDERR", screen.stream.fileno())
    with storer._progress(True):
        assert screen.drawn.wait(60)
    assert "storing the trial" in screen.text.decode()


def test_nothing_is_drawn_where_the_program_writes_to_a_pipe_or_is_quiet(screen, monkeypatch):
    from taupy.commands import storer

    with storer._progress(False):
        assert not bar._open
    reader, writer = os.pipe()
    monkeypatch.setattr(storer, "_STDERR", writer)
    with storer._progress(True):
        assert not bar._open
    os.close(reader)
    os.close(writer)


def test_work_within_other_work_takes_its_place(screen, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen.stream)
    with bar.shown("outer") as outer, bar.shown("inner") as inner:
        assert inner is outer and outer.what == "inner"
    assert not bar._open
