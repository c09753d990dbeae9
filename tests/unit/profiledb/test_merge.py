"""Merging: nothing renumbered that need not be, nothing doubled, nothing lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from taupy.errors import DatabaseError, NoSuchTrial, TaupyError, UsageError
from taupy.model.machine import Ceiling
from taupy.profiledb import files, kernel_codes, merge_copy, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.merge import merge
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import (
    SAMPLED_FROM_NS,
    UUID,
    call,
    database_at,
    gpu_profile,
    host,
    profile_of,
    random_profile,
    samples,
    small_profile,
)
from tests.kernel_codes import access, code, count


@pytest.fixture
def make(tmp_path):
    """Makes a database of profiles: its path."""

    def made(name, *profiles):
        path = str(tmp_path / name)
        with database_at(path) as db:
            for profile in profiles:
                add_profile(db, profile)
        return path

    return made


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    for path in tmp_path.glob("*.db"):
        with ProfileDB.open(path) as db:
            assert db.verify() == [], path


def contents(path, names=True):
    """All trials by uuid: their profiles spelled out (NaN equals no NaN) and their tags."""
    with ProfileDB.open(path) as db:
        profiles = {row.uuid: (read_profile(db, row.id), row.tags) for row in db.trials()}
    if not names:
        profiles = {uuid: (replace(one, name=None), t) for uuid, (one, t) in profiles.items()}
    return {uuid: (repr(profile), tags) for uuid, (profile, tags) in profiles.items()}


def dump(path):
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())


def ids(path):
    with ProfileDB.open(path) as db:
        return {row.id: row.uuid for row in db.trials()}


def test_a_merged_trial_reads_as_it_was_in_its_own_file(make):
    random = Random(3)
    a = make("a.db", small_profile(1), random_profile(random, 2))
    b = make("b.db", gpu_profile(3), random_profile(random, 4), small_profile(5, name="x"))
    expected = contents(a, names=False) | contents(b, names=False)
    (result,) = merge(a, [b])
    assert [(t.old_id, t.new_id) for t in result.added] == [(1, 3), (2, 4), (3, 5)]
    assert contents(a, names=False) == expected
    assert dump(b) == dump(shutil.copy(b, "b2.db"))


def test_merging_is_as_storing_the_profiles_one_after_the_other(make):
    """All tables are the same but for autoincremented numbers of rows."""
    profiles = [small_profile(1), gpu_profile(2), random_profile(Random(5), 3)]
    one_file = make("one.db", *profiles)
    merge("all.db", [make(f"{n}.db", profile) for n, profile in enumerate(profiles)])
    same = set(dump(one_file)) ^ set(dump("all.db"))
    assert {line.split('"')[1] for line in same if line.startswith("INSERT")} <= {"trial"}
    assert contents(one_file) == contents("all.db")


def test_twice_is_once(make):
    a, b = make("a.db", small_profile(1)), make("b.db", small_profile(1), gpu_profile(2))
    merge(a, [b])
    before = dump(a)
    (result,) = merge(a, [b])
    assert dump(a) == before
    assert (result.added, result.joined, result.present) == ([], [], [1, 2])
    merge(b, [a])
    assert contents(a) == contents(b)


def test_numbers_that_are_free_are_kept(make):
    a = make("a.db", small_profile(1))
    b = make("b.db", small_profile(2), small_profile(3), small_profile(4))
    with ProfileDB.open(b, readonly=False) as db:
        db.delete(1)
    merge("c.db", [b])
    assert ids("c.db") == {2: UUID.format(3), 3: UUID.format(4)}
    merge(a, [b])
    assert ids(a) == {1: UUID.format(1), 2: UUID.format(3), 3: UUID.format(4)}


def test_the_number_of_a_deleted_trial_is_not_given_again(make):
    a = make("a.db", small_profile(1), small_profile(2))
    with ProfileDB.open(a, readonly=False) as db:
        db.delete(2)
    merge(a, [make("b.db", small_profile(8), small_profile(9))])
    assert sorted(ids(a)) == [1, 3, 4]


def test_names_that_clash_stay_distinct(make):
    a = make("a.db", small_profile(1), small_profile(2, name="base"))
    b = make(
        "b.db",
        small_profile(3),
        small_profile(4, name="1@epoch 1"),
        small_profile(5, name="base"),
        small_profile(6, experiment="other"),
    )
    (result,) = merge(a, [b])
    assert [(t.old_name, t.new_name) for t in result.added] == [
        ("app/default/1", "app/default/2"),
        ("app/default/1@epoch 1", "app/default/2@epoch 1"),
        ("app/default/base", "app/default/base (2)"),
        ("app/other/1", "app/other/1"),
    ]
    with ProfileDB.open(a) as db:
        assert len({(t.experiment, t.name) for t in db.trials()}) == 6


def test_shards_of_one_trial_become_one_trial(make):
    def rank(node, **more):
        return profile_of(
            host(call("main", exclusive=10 + node, children=[call(f"f{node}")]), node=node),
            node_metadata={node: {"PID": str(node)}},
            **more,
        )

    ranks = [
        rank(0, metadata={"Command": "x", "taupy.health.a": "one"}, duration_ns=5_000_000_000),
        rank(1, metadata={"Command": "x", "taupy.health.a": "two"}, state="incomplete"),
        rank(2, metadata={"Late": "yes"}, exit_code=7),
    ]
    merge("all.db", [make(f"{n}.db", profile) for n, profile in enumerate(ranks)])
    together = make("together.db", *ranks)
    assert contents("all.db") == contents(together)
    with ProfileDB.open("all.db") as db:
        trial = read_profile(db, 1)
    assert trial.metadata["taupy.health.a"] == "one\ntwo"
    assert (trial.state, trial.exit_code) == ("incomplete", 0)
    before = dump("all.db")
    merge("all.db", ["1.db", "0.db"])
    assert dump("all.db") == before


def test_hosts_whose_clocks_are_an_hour_apart_make_no_trial_of_an_hour(make):
    """Whatever the order: through files, and through one database."""

    def rank(node, where, began, took):
        facts = {
            "Rank": str(node), "Ranks": "3", "Attempt": "1", "Hostname": where,
            "Starting Timestamp": str(began * 10**6),
            "Ending Timestamp": str((began + took) * 10**6),
        }  # fmt: skip
        profile = profile_of(
            host(call("main", exclusive=10), node=node),
            node_metadata={node: facts}, started_at=float(began), duration_ns=took * 10**9,
        )  # fmt: skip
        moved = began * 10**9 - SAMPLED_FROM_NS
        one = samples("Resident", "KiB", [5.0])
        for column in (one.start_ns, one.end_ns):
            column[0] += moved
        profile.threads[0].samples = [one]
        return profile

    ranks = [rank(0, "a", 10_000, 60), rank(1, "b", 13_600, 62), rank(2, "a", 10_001, 60)]
    one_by_one = [make(f"{n}.db", profile) for n, profile in enumerate(ranks)]
    expected = contents(make("together.db", *ranks))
    for number, order in enumerate(permutations(range(3))):
        merge(f"into{number}.db", [one_by_one[n] for n in order])
        assert contents(f"into{number}.db") == expected
        assert contents(make(f"at{number}.db", *(ranks[n] for n in order))) == expected
    with ProfileDB.open("into0.db") as db:
        trial = db.trial(1)
        assert (trial.duration_ns, trial.started_at[:19]) == (62 * 10**9, "1970-01-01T02:46:40")
        remark = read_profile(db, 1).metadata["taupy.health.clocks"]
        assert "ahead of the first: b by about 3,600 s" in remark
        assert [row.start_s for row in query.timeline(db, 1)] == [0.0, 0.0, 1.0]


def test_what_another_copy_of_a_trial_has_more_is_added(make):
    small = small_profile(1)
    more = small_profile(1)
    for thread in more.threads:
        thread.tree.inclusive["cycles"] = thread.tree.inclusive["time"]
        thread.tree.exclusive["cycles"] = thread.tree.exclusive["time"]
    more.metrics = [*more.metrics, replace(more.metrics[0], name="cycles")]
    more.metadata["Color"] = "red"
    a, b = make("a.db", small), make("b.db", more)
    with ProfileDB.open(b, readonly=False) as db:
        db.tag(1, "base")
        db.rename(1, "renamed")
    (result,) = merge(a, [b])
    assert result.joined == [1]
    assert contents(a, names=False) == contents(b, names=False)
    with ProfileDB.open(a) as db:
        assert [(trial.name, trial.tags) for trial in db.trials()] == [("1", ("base",))]


def test_a_copy_with_other_calls_is_left_as_it_is_and_named(make):
    one = profile_of(host(call("main", 1, {"time": 5})))
    other = profile_of(host(call("main", 2, {"time": 5, "cycles": 9})))
    a, b = make("a.db", one), make("b.db", other)
    before = contents(a)
    (result,) = merge(a, [b])
    assert result.differing == [1]
    assert contents(a) == before


def test_metrics_with_clashing_numbers_keep_their_values(make):
    def counted(number, *names):
        values = {name: 10 * place + number for place, name in enumerate(names, 1)}
        return profile_of(host(call("f", 1, values)), number=number)

    a = make("a.db", counted(1, "time", "x"))
    b = make("b.db", counted(2, "a"), counted(3, "b", "time", "c"), counted(4, "x"))
    expected = contents(a, names=False) | contents(b, names=False)
    merge(a, [b])
    assert contents(a, names=False) == expected
    merge("new.db", [b])
    assert dump("new.db") == dump(b)


def test_ceilings_and_derived_metrics_come_along(make):
    a, b = make("a.db", small_profile(1)), make("b.db")
    roof = Ceiling("c1", "host", "cpu", "", "compute", "fp64", "fma", 1, 1e9, "flop/s", "measured")
    names = [name for name in roof.__dataclass_fields__ if getattr(roof, name) is not None]
    with ProfileDB.open(b, readonly=False) as db, db.transaction() as connection:
        connection.execute(
            f"INSERT INTO ceiling ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            [getattr(roof, name) for name in names],
        )
        connection.executemany(
            "INSERT INTO derived_metric VALUES (?, ?, ?, ?)",
            [("ipc", "inst / cycles", "1", ""), ("x", "a + b", "1", "")],
        )
    with ProfileDB.open(a, readonly=False) as db, db.transaction() as connection:
        connection.execute("INSERT INTO derived_metric VALUES ('x', 'a - b', '1', '')")
    (result,) = merge(a, [b])
    assert (result.ceilings, result.derived, result.kept) == (1, 1, ["x"])
    (again,) = merge(a, [b])
    assert (again.ceilings, again.derived) == (0, 0)
    with ProfileDB.open(a) as db:
        assert db.rows("SELECT name, value FROM ceiling") == [("fp64", 1e9)]
        assert dict(db.rows("SELECT name, expression FROM derived_metric")) == {
            "ipc": "inst / cycles",
            "x": "a - b",
        }


def test_a_kernel_is_copied_with_all_its_code_or_not_at_all(make):
    def stored(path, *codes):
        with ProfileDB.open(path, readonly=False) as db:
            assert len(list(kernel_codes.storing(db, codes))) == len(codes)

    def there(path):
        with ProfileDB.open(path) as db:
            return kernel_codes.stored(db, lambda full, chip: True)

    here, other = make("a.db", small_profile(1)), make("b.db")
    known = code("gemm", counts=(count("move", 3),))
    stored(here, known)
    # An older taupy did not recognise moves; both records would add up to six instructions.
    new = code("saxpy", counts=(count("fp32", 2),), accesses=(access(),))
    stored(other, code("gemm", counts=(count("fp16", 3),), accesses=(access(),)), new)
    (result,) = merge(here, [other])
    assert there(here) == [known, new] and result.kernels == 1
    (again,) = merge(here, [other])
    assert again.kernels == 0


def test_chosen_trials_are_moved(make):
    a = make("a.db", small_profile(1, name="keep"), gpu_profile(2))
    whole = contents(a)
    merge("b.db", [a], ["train"], move=True)
    assert contents("b.db") == {UUID.format(2): whole[UUID.format(2)]}
    assert contents(a) == {UUID.format(1): whole[UUID.format(1)]}
    with pytest.raises(NoSuchTrial, match="no trial matches 'nothing'"):
        merge("b.db", [a], ["keep", "nothing"])


def test_more_sources_than_sqlite_attaches_at_once(make):
    sources = [make(f"{n:02}.db", small_profile(n)) for n in range(10, 23)]
    merge("all.db", sources)
    assert len(ids("all.db")) == 13


def test_every_table_is_either_copied_or_known(make):
    """A table that a later version adds must not be forgotten."""
    path = make("a.db", gpu_profile(1))
    with ProfileDB.open(path, readonly=False) as db, db.transaction() as connection:
        copier = merge_copy.Copier(connection, "main", merge_copy.Merged(path))
        handled = {*merge_copy._NUMBERED, *merge_copy._CONTENT, "timer_group", "metadata"}
        handled |= set(copier._of_a_trial())
        rest = copier._references.keys() - handled
        for table in rest:  # they stand alone
            assert copier._references[table] == {}, table
    assert {"ceiling", "derived_metric"} <= rest


@pytest.mark.parametrize("names", [("a.db", "a.db"), ("a.db", "./a.db"), ("a.db", "link.db")])
def test_the_same_file_twice_is_refused(make, names):
    make("a.db", small_profile(1))
    os.symlink("a.db", "link.db")
    before = dump("a.db")
    with pytest.raises(UsageError, match="named twice"):
        merge(names[0], names[1:])
    with pytest.raises(UsageError, match="named twice"):
        merge("new.db", names)
    assert dump("a.db") == before
    assert not os.path.exists("new.db")
    os.unlink("link.db")


def test_what_cannot_be_read_is_refused_and_nothing_changes(make, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE_S", 0.2)
    a, b = make("a.db", small_profile(1)), make("b.db", gpu_profile(2))
    before = dump(a)
    newer = make("newer", gpu_profile(3))
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    with open("text", "w") as file:
        file.write("no database at all\n")
    cut = shutil.copy(b, "cut")
    os.truncate(cut, os.path.getsize(cut) // 2)
    loose = make("loose", small_profile(4))
    with sqlite3.connect(loose) as connection:
        connection.execute("DELETE FROM callpath WHERE depth = 2")
    for path, words in [
        (newer, "newer taupy"),
        ("text", "not a trial database"),
        (cut, "damaged"),
        (loose, "taupy doctor"),
        ("none.db", "no database none.db"),
    ]:
        for sources in ([path], [b, path]):
            with pytest.raises(DatabaseError, match=words) as refusal:
                merge(a, sources)
            assert os.path.basename(path) in str(refusal.value)
            with pytest.raises(DatabaseError):
                merge("new.db", sources)
            assert not os.path.exists("new.db")
    assert dump(a) == before


def test_a_source_that_is_being_written_is_named(make, monkeypatch):
    monkeypatch.setattr("taupy.profiledb.files.PATIENCE_S", 0.2)
    a, b = make("a.db", small_profile(1)), make("b.db", small_profile(2))
    writer = sqlite3.connect(b, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(DatabaseError, match=r"b\.db is locked"):
            merge(a, [b])
    finally:
        writer.close()
    assert len(ids(a)) == 1


@pytest.mark.parametrize("changes", [1, 10, 100])
def test_a_damaged_source_never_harms_the_target(make, changes):
    a, b = make("a.db", small_profile(1)), make("b.db", small_profile(2), gpu_profile(3))
    sound = Path(b).read_bytes()
    random = Random(changes)
    for number in range(12):
        content = bytearray(sound)
        for _ in range(changes):
            content[random.randrange(100, len(content))] = random.randrange(256)
        shutil.copy(a, "target.db")
        Path("odd").write_bytes(content)
        try:
            merge("target.db", ["odd"])
        except TaupyError as error:
            assert str(error).isprintable()
            assert dump("target.db") == dump(a), number
        with ProfileDB.open("target.db") as db:
            assert db.verify() == []


def test_deleting_a_trial_with_a_gpu_leaves_nothing_of_it(make):
    path = make("a.db", small_profile(1), gpu_profile(2))
    alone = make("b.db", small_profile(1))
    with ProfileDB.open(path, readonly=False) as db:
        db.delete(2)

    def rows(path):
        return [line for line in dump(path) if line.startswith("INSERT") and "sequence" not in line]

    assert rows(path) == rows(alone)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_files_does_not_matter(make, seed):
    random = Random(seed)
    files = []
    for number in range(4):
        numbers = random.sample(range(10, 20), random.randrange(1, 5))
        files.append(make(f"{number}.db", *(random_profile(Random(n), n) for n in numbers)))
    merge("forth.db", files)
    merge("back.db", files[::-1])
    for path in files:  # one by one, some of them twice
        merge("single.db", [path])
        merge("single.db", [random.choice(files)])
    assert contents("forth.db", names=False) == contents("back.db", names=False)
    assert contents("forth.db", names=False) == contents("single.db", names=False)


def test_values_over_time_come_along(make):
    profile = gpu_profile(2)
    profile.threads[0].samples = [samples("GPU[0] sm_active", "%", [1.0, 2.0])]
    target, source = make("a.db", small_profile(1)), make("b.db", profile)
    merge(target, [source])
    assert contents(target)[profile.uuid] == contents(source)[profile.uuid]
    with ProfileDB.open(target) as db:
        rows = db.rows("SELECT event, mean, maximum, count FROM timeline")
    assert rows == [("GPU[0] sm_active", 1.0, 2.0, 2), ("GPU[0] sm_active", 2.0, 3.0, 2)]
    with ProfileDB.open(target, readonly=False) as db:
        db.delete(db.trials()[1].id)
        assert db.rows("SELECT count(*) FROM sample") == [(0,)]
        assert db.rows("SELECT count(*) FROM user_event WHERE name LIKE 'GPU[%'") == [(0,)]
