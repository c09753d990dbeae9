"""Trials pushed into a store and pulled out of it are the trials that were measured."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from subprocess import Popen

import pytest

from taupy.model.profile import LineTime, SourceFile
from taupy.profiledb import kernel_codes
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.source_texts import add_sources, sources_of
from taupy.profiledb.writer import add_profile
from taupy.store.catalogue import Catalogue, Store
from taupy.store.check import check
from taupy.store.reading import StoreDB
from tests.builders import UUID, canonical, gpu_profile, random_profile, small_profile
from tests.kernel_codes import access, code, count
from tests.store.conftest import ended_at_random
from tests.unit.ranks.test_command import rank

pytestmark = pytest.mark.slow


def profiles(path):
    """uuid -> name, tags, and the profile as text, in which what was not measured equals itself."""
    with ProfileDB.open(path) as db:
        return {
            trial.uuid: (trial.name, trial.tags, repr(replace(profile, name="")))
            for trial in db.trials()
            for profile in [canonical(read_profile(db, trial.id))]
        }


def test_what_is_pushed_is_pulled(place):
    assert "6 trials added" in place("push", "--to", place.address)
    assert "6 trials added" in place("pull", "*", "--from", place.address, "--db", "b.db")
    assert profiles(place.path / "b.db") == profiles(place.path / "taupy.db")
    assert "no problems" in place("doctor", "b.db")
    for command in ("report 4", "kernels 2", "steps 4", "ceilings list"):
        words = command.split()
        pulled, pushed = place(*words, "--db", "b.db"), place(*words)
        if words[0] == "report":  # its last line says what to type next: with --db there
            assert "--db b.db" in pulled.splitlines()[-1]
            pulled, pushed = (text.rpartition("\n\n")[0] for text in (pulled, pushed))
        assert pulled == pushed, command


def test_pushing_again_changes_nothing(place):
    place("push", "--to", place.address)
    files = {path: path.stat().st_mtime_ns for path in (place.path / "files").rglob("*")}
    assert "6 trials already there" in place("push", "--to", place.address)
    assert files == {path: path.stat().st_mtime_ns for path in (place.path / "files").rglob("*")}
    assert "already there" in place("pull", "2", "--from", place.address)


def test_source_text_is_pushed_only_if_asked(place):
    with ProfileDB.open(place.path / "taupy.db", readonly=False) as db, db.transaction() as opened:
        text = "x = 1"
        add_sources(opened, 1, [SourceFile("/p/a.py", "a.py", 64 * "0", text=text)])
    place("push", "1", "--to", place.address)
    place("pull", "1", "--from", place.address, "--db", "b.db")
    with ProfileDB.open(place.path / "b.db") as db:
        assert db.rows("SELECT path, text FROM source") == [("/p/a.py", None)]
    place("push", "1", "--with-source", "--to", place.address)
    place("push", "1", "--to", place.address)  # takes nothing away
    place("pull", "1", "--from", place.address, "--db", "c.db")
    with ProfileDB.open(place.path / "c.db") as db:
        assert [source.lines for source in sources_of(db, 1)] == [[text]]


def test_lines_are_pushed_without_their_text(place):
    """Positions, looks and hashes are kept; the text, which may hold a secret, is not."""
    profile = replace(small_profile(), uuid=UUID.format(77))
    rows = [
        LineTime(1, None, 3, 3, 4, 9, "cpu", 20, 90, 100, 600.0, -5, 1 << 62),
        LineTime(1, 2, 4, 5, 0, 9, "gil", 12, 80, 90, 500.0),
        LineTime(1, None, 6, 6, -1, -1, "runnable", 0, 70, 0, 0.0, None, None, 3, 75),
    ]
    profile.threads[0].lines = rows
    profile.sources = [SourceFile("/p/a.py", "a.py", 64 * "0", text="x = 1")]
    with ProfileDB.open(place.path / "taupy.db", readonly=False) as db:
        trial = add_profile(db, profile)
    place("push", str(trial), "--to", place.address)
    place("pull", "1", "--from", place.address, "--db", "b.db")
    for database, number, has_text in (("taupy.db", trial, True), ("b.db", 1, False)):
        with ProfileDB.open(place.path / database) as db:
            assert read_profile(db, number).threads[0].lines == rows
            texts = db.rows("SELECT text IS NULL FROM source WHERE trial_id = ?", (number,))
        assert texts == [(not has_text,)]


def test_trials_are_selected_on_both_ways(place):
    assert "1 trial added (2 is 1)" in place("push", "tag:base", "--to", place.address)
    listed = place("pull", "--from", place.address, "--csv")
    assert len(listed.splitlines()) == 2 and UUID.format(2) in listed
    place("pull", "latest,tag:base", "--from", place.address, "--db", "b.db")
    miss = place("pull", "tag:none", "--from", place.address, "--db", "b.db", code=1)
    assert "tags base" in miss and place.address in miss


def test_a_trial_that_has_grown_is_completed(place):
    place("push", "--to", place.address)
    other = replace(rank(1, 160, [85, 180]), uuid=UUID.format(6))
    with ProfileDB.open(place.path / "b.db", create=True) as db:
        add_profile(db, other)
    assert "1 trial completed" in place("push", "--db", "b.db", "--to", place.address)
    assert "already there" in place("push", UUID.format(6), "--to", place.address)
    place("pull", UUID.format(6), "--from", place.address, "--db", "c.db")
    place("merge", "taupy.db", "b.db")
    both = profiles(place.path / "taupy.db")[UUID.format(6)]
    assert profiles(place.path / "c.db") == {UUID.format(6): both}
    assert all(f"node={node}" in both[2] for node in (0, 1))
    assert "0 files" not in place("store", "check", "--db", place.address, "--read")


def test_a_taken_name_is_not_taken_twice(place):
    with ProfileDB.open(place.path / "b.db", create=True) as db:
        for number in (8, 9):
            add_profile(db, small_profile(number))
        names = [trial.name for trial in db.trials()]
    place("push", "--to", place.address)
    said = place("push", "--db", "b.db", "--to", place.address)
    assert "renamed" in said and len(names) == 2
    with Catalogue.open(place.address) as catalogue:
        rows = catalogue.rows("SELECT application, experiment, name FROM trial")
    assert len(set(rows)) == 8


def test_lost_files_are_named_and_pushed_again(place):
    place("push", "--to", place.address)
    lost = next((place.path / "files").rglob(f"{UUID.format(2)}.call.*"))
    lost.unlink()
    assert UUID.format(2) in place("store", "check", "--db", place.address, code=1)
    assert "No such file" in place("pull", "2", "--from", place.address, "--db", "b.db", code=1)
    assert not (place.path / "b.db").exists()
    assert "1 trial completed" in place("push", "--to", place.address)
    place("pull", "2", "--from", place.address, "--db", "b.db")
    assert profiles(place.path / "b.db").items() <= profiles(place.path / "taupy.db").items()


EIGHT = [f"{number}.db" for number in range(10, 18)]


@pytest.fixture
def eight(place):
    """Eight databases, each with a trial of its own and one that all have; uuid -> profile."""
    profile_of = {}
    for number, name in enumerate(EIGHT, 10):
        with ProfileDB.open(place.path / name, create=True) as db:
            add_profile(db, random_profile(random.Random(number), number))
            add_profile(db, gpu_profile(2))
        profile_of |= profiles_alone(place.path / name)
    return profile_of


def profiles_alone(path):
    """uuid -> the profile as text."""
    return {uuid: profile for uuid, (*_, profile) in profiles(path).items()}


def together(push):
    """What the function returns for each of the eight databases, called at once."""
    with ThreadPoolExecutor(len(EIGHT)) as pool:
        return [*pool.map(push, EIGHT)]


def push_of(place, name):
    return ("push", "--to", place.address, "--db", name)


def whole_trials(place, name, read):
    """What `read` says of the trials of the store, each of which must be whole."""
    place("store", "check", "--db", place.address, "--read", "--mend")
    with Catalogue.open(place.address) as catalogue:
        (trials,) = catalogue.row("SELECT count(*) FROM trial")
    if not trials:
        return {}
    place("pull", "*", "--from", place.address, "--db", name)
    pulled = read(place.path / name)
    assert len(pulled) == trials
    return pulled


def test_eight_push_at_once(place, eight):
    def push(name):
        command = [sys.executable, "-m", "taupy", *push_of(place, name)]
        return subprocess.run(command, cwd=place.path, timeout=300).returncode

    assert together(push) == [0] * 8
    with Store.open(place.address) as store:
        checked = check(store, read=True)
    assert (checked.trials, checked.lost, checked.orphans) == (9, {}, [])
    place("pull", "*", "--from", place.address, "--db", "all.db")
    assert profiles_alone(place.path / "all.db") == eight


def test_eight_that_are_killed_while_they_push_lose_nothing(place, eight):
    killed = 0
    for attempt in range(3):

        def push(name, within_s=1.5 + 1.5 * attempt):
            return ended_at_random(push_of(place, name), place.path, within_s, Popen.kill)

        killed += sum(was_running for was_running, *_ in together(push))
        assert whole_trials(place, f"after-{attempt}.db", profiles_alone).items() <= eight.items()
    assert killed
    for name in EIGHT:
        place(*push_of(place, name))
    place("pull", "*", "--from", place.address, "--db", "all.db")
    assert profiles_alone(place.path / "all.db") == eight


def test_pushes_that_are_killed_leave_trials_whole_or_absent(place):
    killed = 0
    for attempt in range(12):
        words = ("push", "--to", place.address)
        killed += ended_at_random(words, place.path, 0.3 + 0.2 * attempt, Popen.kill)[0]
        pushed = whole_trials(place, f"{attempt}.db", profiles)
        assert pushed.items() <= profiles(place.path / "taupy.db").items()
    assert killed
    place("push", "--to", place.address)
    place("pull", "*", "--from", place.address, "--db", "last.db")
    assert profiles(place.path / "last.db") == profiles(place.path / "taupy.db")


@pytest.mark.parametrize("command", ["push", "pull"])
def test_ctrl_c_leaves_trials_whole_or_absent(place, command):
    """At moments between the first and the last trial, whatever the machine's speed."""
    if command == "pull":
        place("push", "--to", place.address)
    line = ("push", "--to") if command == "push" else ("pull", "*", "--db", "b.db", "--from")
    for trials in range(6):
        program = INTERRUPTED.format(after=trials)
        words = [sys.executable, "-c", program, *line, place.address]
        done = subprocess.run(words, cwd=place.path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 130, done.stderr
        *_, last = done.stderr.splitlines()
        assert last == "taupy: stopped by Ctrl-C; nothing is left half written"
        assert "Traceback" not in done.stderr
        there = (
            whole_trials(place, f"{trials}.db", profiles)
            if command == "push"
            else profiles(place.path / "b.db")
            if (place.path / "b.db").exists()
            else {}
        )
        assert there.items() <= profiles(place.path / "taupy.db").items()
    place(*line, place.address)
    read = place.path / "b.db"
    if command == "push":
        place("pull", "*", "--from", place.address, "--db", "b.db")
    assert profiles(read) == profiles(place.path / "taupy.db")


INTERRUPTED = """
import signal, sys
from taupy.commands import bar, main
from taupy.model.progress import Silent

class Interrupting(Silent):
    left = {after}

    def advance(self, amount=1):
        Interrupting.left -= 1
        if Interrupting.left < 0:
            signal.raise_signal(signal.SIGINT)

from contextlib import contextmanager

@contextmanager
def shown(what="", stream=None):
    yield Interrupting()

bar.shown = shown
sys.exit(main())
"""
"""`taupy` that is interrupted when it has reported progress so many times."""


def test_a_connection_that_is_lost_ends_in_one_line(place, monkeypatch):
    """Just before the commit."""
    from taupy.store import push

    written = push._catalogued

    def and_lost(catalogue, *rest):
        number = written(catalogue, *rest)
        with Catalogue(place.address) as other:
            mine = catalogue.connection.info.backend_pid
            other.rows("SELECT pg_terminate_backend(%s)", (mine,))
        return number

    monkeypatch.setattr(push, "_catalogued", and_lost)
    said = place("push", "--to", place.address, code=1)
    assert "Traceback" not in said and len(said.splitlines()) == 1
    monkeypatch.undo()
    assert "6 trials added" in place("push", "--to", place.address)
    assert "--mend" in place("store", "check", "--db", place.address, code=1)
    place("store", "check", "--db", place.address, "--mend")
    assert "of no trial" not in place("store", "check", "--db", place.address, "--read")


def test_checks_and_pushes_wait_for_each_other(place):
    with Catalogue.open(place.address) as catalogue, catalogue.pushing():
        assert "being pushed" in place("store", "check", "--db", place.address, code=1)
        place("push", "--to", place.address)


def test_an_older_store_gets_what_it_lacks_and_a_newer_one_is_refused(place):
    with Catalogue.open(place.address) as catalogue:
        catalogue.connection.execute("DROP TABLE layer; ALTER TABLE thread DROP COLUMN kind")
        catalogue.connection.execute("UPDATE store SET value = '6' WHERE name = 'schema'")
    place("push", "--to", place.address)
    place("pull", "*", "--from", place.address, "--db", "b.db")
    assert profiles(place.path / "b.db") == profiles(place.path / "taupy.db")
    with Catalogue.open(place.address) as catalogue:
        catalogue.connection.execute("UPDATE store SET value = '999' WHERE name = 'schema'")
    assert "newer taupy" in place("pull", "--from", place.address, code=1)


def test_what_is_no_store_is_refused_in_one_line(place, server, tmp_path):
    elsewhere = f"postgresql://postgres@/postgres?host={server}"
    assert "has no store" in place("pull", "--from", elsewhere, code=1)
    words = ("store", "create", "--db", place.address, "--files", "other")
    assert "already" in place(*words, code=1)
    assert not (tmp_path / "other").exists()
    words = ("store", "create", "--db", elsewhere, "--files", "files")
    assert "another store" in place(*words, code=1)
    assert "has no store" in place("pull", "--from", elsewhere, code=1)
    (tmp_path / "files" / "taupy-store.json").unlink()
    assert "mounted" in place("push", "--to", place.address, code=1)


def test_merge_copies_into_a_store_and_out_of_it(place):
    said = place("merge", "taupy.db", "--into", place.address, "--trial", "tag:base")
    assert "taupy.db: 1 trial added (2 is 1)" in said
    assert "5 trials added" in place("merge", "taupy.db", "--into", place.address)
    assert "6 trials added" in place("merge", place.address, "--into", "b.db")
    assert profiles(place.path / "b.db") == profiles(place.path / "taupy.db")
    for words in (("merge", "b.db", "--into", place.address, "--move"),
                  ("merge", place.address, "--into", place.address)):  # fmt: skip
        place(*words, code=2)
    assert "6 trials" in place("doctor", "--db", place.address)


def test_a_kernel_is_in_the_store_with_all_its_code_of_one_analysis(place, monkeypatch):
    def stored_by(database, *codes, code=0):
        monkeypatch.setattr("taupy.commands.static.read", lambda *_: (codes, []))
        return place("static", "x.cubin", "--store", "--db", database, code=code)

    def there():
        with StoreDB(place.address) as store:
            return kernel_codes.stored(store, lambda full, chip: True)

    first = code("gemm", counts=(count("move", 3),), accesses=(access(), access(stride=8)))
    older = code("gemm", counts=(count("fp16", 3),), accesses=(access(number=2),))
    other = code("saxpy", module="1" * 64, counts=(count("fp32", 2),))
    assert "gemm" in stored_by(place.address, first) and there() == [first]
    assert "saxpy" in stored_by("older.db", older, other)
    assert "1 kernel" in place("push", "--db", "older.db", "--to", place.address)
    assert there() == [first, other]
    assert "nothing new" in place("push", "--db", "older.db", "--to", place.address)
    (place.path / "taupy.db").unlink()  # from which all else would be pushed, too
    assert "gemm" in stored_by(place.address, older) and there() == [older, other]
    away = f"postgresql://nobody@/none?host={place.path}"
    said = stored_by(away, first, code=1)
    assert "not in the store" in said and "taupy push --db" in said


def test_names_that_postgresql_cannot_hold(place):
    with ProfileDB.open(place.path / "b.db", create=True) as db:
        add_profile(db, small_profile(9, metadata={"a\0b": "c\0\ud800"}))
    place("push", "--db", "b.db", "--to", place.address)
    place("pull", UUID.format(9), "--from", place.address, "--db", "c.db")
    with ProfileDB.open(place.path / "c.db") as db:
        rows = db.rows("SELECT name, value FROM metadata WHERE name LIKE 'a%'")
    assert rows == [("a␀b", "c␀\\ud800")]


def test_a_trial_that_the_store_cannot_hold_does_not_keep_others_out(place):
    chance = random.Random(1)
    name = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9000))
    with ProfileDB.open(place.path / "b.db", create=True) as db:
        add_profile(db, small_profile(8, name=name))
        add_profile(db, small_profile(9))
        list(kernel_codes.storing(db, [code(name)]))
    said = place("push", "--db", "b.db", "--to", place.address, code=1)
    assert "1 trial added" in said and said.count("\n") == 2
    assert "trial 1 was not pushed: PostgreSQL cannot hold it" in said
    assert "kernels were not pushed: PostgreSQL cannot hold it" in said
    assert "1 trial, " in place("store", "check", "--db", place.address)


def test_duckdb_reads_the_files(place):
    duckdb = pytest.importorskip("duckdb")
    place("push", "--to", place.address)
    files = place.path / "files" / "app=*" / "month=*" / "*.interval_value.*.parquet"
    asked = duckdb.sql(f"""
        SELECT trial, sum(exclusive)::BIGINT FROM read_parquet('{files}')
         WHERE exclusive IS NOT NULL GROUP BY trial ORDER BY trial""").fetchall()
    with ProfileDB.open(place.path / "taupy.db") as db:
        assert asked == db.rows(
            "SELECT uuid, sum(exclusive) FROM interval_value JOIN trial ON trial.id = trial_id"
            " WHERE typeof(exclusive) = 'integer' GROUP BY uuid ORDER BY uuid"
        )
