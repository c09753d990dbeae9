"""Questions on Dask's workers have the answers of one machine, also when a worker is killed."""

from __future__ import annotations

import os
import random
import signal
import threading

import pytest

from taupy.errors import DatabaseError
from taupy.model.question import VALUES, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.store import cluster
from taupy.store.catalogue import Catalogue
from tests.builders import random_profile

pytest.importorskip("duckdb")
pytestmark = pytest.mark.slow

TRIALS = tuple(range(7, 19))
QUESTIONS = [
    Question(TRIALS, by=by, values=VALUES)
    for by in (("callpath",), ("trial", "thread", "callpath", "parent"), ("depth",), ("layer",))
]


@pytest.fixture(scope="module")
def workers():
    distributed = pytest.importorskip("distributed")  # here, since `make test` runs none of these
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as local:
        yield local


@pytest.fixture
def filled(place, workers, monkeypatch):
    with ProfileDB.open(place.path / "taupy.db", readonly=False) as db:
        for number in TRIALS:
            add_profile(db, random_profile(random.Random(number), number + 10))
    place("push", "--to", place.address)
    monkeypatch.setenv("TAUPY_CLUSTER", workers.scheduler_address)
    asked = []
    columns = cluster.columns

    def noted(*given):
        asked.append(given)
        return columns(*given)

    monkeypatch.setattr(cluster, "columns", noted)
    place.asked = asked
    return place


def answers(name):
    with opened(name) as db:
        return [rows(values(db, question), question) for question in QUESTIONS]


def rows(table, question):
    columns = [table.row_labels(name) for name in question.by]
    return list(zip(*columns, *map(list, table.columns.values()), strict=True))


def test_parts_on_workers_add_up(filled):
    assert answers(filled.address) == answers(str(filled.path / "taupy.db"))
    assert len(filled.asked) >= len(QUESTIONS)


def test_a_worker_that_is_killed_in_mid_question_changes_nothing(filled, workers):
    from distributed import Client

    expected = answers(str(filled.path / "taupy.db"))[0]
    with Client(workers.scheduler_address, set_as_default=False) as client:
        ids = sorted(client.run(os.getpid).values())
        answer = []

        def ask():
            with opened(filled.address) as db:
                answer.append(rows(values(db, QUESTIONS[0]), QUESTIONS[0]))

        with Catalogue.open(filled.address) as other:
            asking = threading.Thread(target=ask)
            with other.transaction() as connection:
                # Workers wait for the manifest, all in mid-question.
                connection.execute("LOCK TABLE file IN ACCESS EXCLUSIVE MODE")
                asking.start()
                waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
                while connection.execute(waiting).fetchone()[0] < 2:
                    assert asking.is_alive()
                os.kill(ids[0], signal.SIGKILL)
            asking.join(300)
        client.wait_for_workers(2, timeout=120)
        assert ids[0] not in client.run(os.getpid).values()
    assert answer == [expected]


def test_a_command_names_a_cluster(filled, workers, monkeypatch):
    monkeypatch.delenv("TAUPY_CLUSTER")
    words = ("compare", "7", "8", "9", "--by", "callpath")
    alone = filled(*words, "--db", filled.address)
    assert not filled.asked
    cluster = ("--cluster", workers.scheduler_address)
    assert filled(*words, "--db", filled.address, *cluster) == alone
    assert filled.asked[0][0] == workers.scheduler_address
    assert "for a store" in filled(*words, *cluster, code=2)


def test_a_scheduler_that_is_not_there_is_one_line(filled, monkeypatch):
    monkeypatch.setenv("TAUPY_CLUSTER", "tcp://127.0.0.1:9")
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:9") as refused:
        answers(filled.address)
    assert "\n" not in str(refused.value)
