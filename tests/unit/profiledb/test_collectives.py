"""Collectives survive the database, and merging."""

from __future__ import annotations

from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.merge import merge
from taupy.profiledb.reader import read_profile
from taupy.profiledb.steps import steps_of
from taupy.profiledb.writer import add_profile
from tests.builders import call, collectives, host, profile_of, stretches


def of_rank(rank: int, asked: list[int], ended: list[int]):
    root = call(Timer(".taupy application"), 1, 10, [call(Timer("step"), 1, 90)])
    profile = profile_of(host(root, rank))
    profile.threads[0].stretches = stretches([9, 12 + rank], {1: 5, 0: 1}, {1: 3})
    profile.threads[0].collectives = [
        collectives(asked, ended, row=1),
        collectives([5], [6], name="other", row=0),
    ]
    return profile


def told(db: ProfileDB, trial: int = 1):
    profile = read_profile(db, trial)
    names = [timer.name for timer in profile.timers]
    return [
        (measured.thread.node, one.communicator, [*one.number], [*one.asked_ns], [*one.ended_ns],
         [names[measured.tree.timer[row]] for row in one.row], one.ranks, one.size, one.begun)
        for measured in profile.threads
        for one in measured.collectives
    ]  # fmt: skip


def test_they_come_back_with_their_call_paths(tmp_path):
    at = 1_700_000_000_000_000_000
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, of_rank(0, [10, 30], [20, -1]))
        assert told(db) == [
            (0, "0", [1, 2], [at + 10, at + 30], [at + 20, -1], ["step"] * 2, "0-1", 2, 2),
            (0, "other", [1], [at + 5], [at + 6], [".taupy application"], "0-1", 2, 1),
        ]


def listed(db: ProfileDB):
    profile = read_profile(db, 1)
    names = [timer.name for timer in profile.timers]
    return [
        (measured.thread.node, [*one.start_ns], [*one.end_ns],
         [(at, names[measured.tree.timer[row]], own)
          for at, row, own in zip(one.stretch, one.row, one.own_ns, strict=True)])
        for measured in profile.threads
        for one in [measured.stretches]
    ]  # fmt: skip


def test_what_threads_did_between_them_is_no_step(tmp_path):
    at = 1_700_000_000_000_000_000
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, of_rank(0, [10, 30], [20, -1]))
        assert listed(db) == [
            (0, [at, at + 9], [at + 9, at + 12],
             [(0, "step", 5), (0, ".taupy application", 1), (1, "step", 3)])
        ]  # fmt: skip
        assert read_profile(db, 1).threads[0].steps == []
        assert steps_of(db, 1) == []
        assert db.rows("SELECT * FROM steps") == []


def test_ranks_of_two_files_are_one_trial(tmp_path):
    for rank in (0, 1):
        with ProfileDB.open(tmp_path / f"{rank}.db", create=True) as db:
            add_profile(db, of_rank(rank, [10 + rank], [20 + rank]))
            if rank:
                alone = told(db)
            else:
                first = told(db)
    merge(str(tmp_path / "0.db"), [str(tmp_path / "1.db")])
    with ProfileDB.open(tmp_path / "0.db") as db:
        assert told(db) == first + alone
        assert [(node, ends[-1] % 100) for node, _, ends, _ in listed(db)] == [(0, 12), (1, 13)]
