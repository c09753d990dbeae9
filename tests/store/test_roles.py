"""Readers read, writers push, and a project's trials are seen by its members only."""

from __future__ import annotations

import os

import pytest

from taupy.store import catalogue as catalogues
from taupy.store.catalogue import Catalogue
from taupy.store.layout import tables
from taupy.store.reading import StoreDB
from tests.builders import UUID
from tests.in_process import taupy

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow


def tables_of(catalogue):
    rows = catalogue.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'taupy'")
    return sorted(name for (name,) in rows)


@pytest.fixture
def users(place):
    """The addresses of users with each role, of one with none, and of a reader in a team."""
    place("push", "--to", place.address)
    with Catalogue.open(place.address) as catalogue:
        execute = catalogue.connection.execute
        (database,) = catalogue.row("SELECT current_database()")
        prefix = f"taupy_{database}"
        assert catalogue.setting("roles") == prefix
        names = {}
        for who in ("reader", "writer", "owner", "nobody", "member", "team"):
            names[who] = f"{database}_{who}"
            execute(f"CREATE ROLE {names[who]} LOGIN")
            if who in ("reader", "writer", "owner"):
                execute(f"GRANT {prefix}_{who} TO {names[who]}")
        execute(f"GRANT {prefix}_reader TO {names['member']}")
        execute(f"GRANT {names['team']} TO {names['member']}")
    place.names = names
    yield {who: place.address.replace("postgres@", f"{name}@") for who, name in names.items()}


def refused(catalogue, sql):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        catalogue.connection.execute(sql)


def test_a_reader_reads_and_writes_nothing(place, users):
    for command in ("trials", "pprof 4 --tree", "report 2", "compare 1 2"):
        words = command.split()
        own = place(*words, "--db", users["reader"]).replace(place.names["reader"], "X")
        assert own == place(*words, "--db", place.address).replace("postgres@", "X@"), command
    with Catalogue.open(users["reader"]) as catalogue:
        for name in tables_of(catalogue):
            refused(catalogue, f"INSERT INTO {name} DEFAULT VALUES")
            refused(catalogue, f"DELETE FROM {name}")
            refused(catalogue, f"TRUNCATE {name}")
            refused(catalogue, f"DROP TABLE {name}")
        refused(catalogue, "UPDATE trial SET name = 'x'")
        refused(catalogue, "CREATE TABLE taupy.mine ()")
    for words in (
        ("push", "--db", "b.db", "--to"),
        ("store", "compact", "--yes", "--db"),
        ("store", "retain", "--days", "1", "--yes", "--db"),
    ):
        taupy("pull", "1", "--from", place.address, "--db", "b.db", cwd=place.path)
        with_change = taupy("trials", "tag", "1", "mine", "--db", "b.db", cwd=place.path)
        assert with_change.returncode == 0
        said = place(*words, users["reader"], code=1)
        assert "permission denied" in said and "Traceback" not in said, words
    assert "no trial has" not in place("store", "check", "--read", "--db", place.address)
    assert "6 trials" in place("store", "check", "--db", users["reader"])


def test_a_writer_pushes_and_changes_no_table(place, users):
    with Catalogue.open(users["owner"]) as catalogue:
        catalogue.connection.execute("DELETE FROM trial WHERE id < 4")
    assert "only an owner" in place("store", "check", "--mend", "--db", users["writer"], code=1)
    place("store", "check", "--mend", "--db", users["owner"])
    assert "3 trials added" in place("push", "--to", users["writer"])
    assert "became" in place("store", "compact", "--yes", "--db", users["writer"])
    with Catalogue.open(users["writer"]) as catalogue:
        refused(catalogue, "ALTER TABLE trial ADD COLUMN x int")
        refused(catalogue, "UPDATE store SET value = 'x'")
        refused(catalogue, "INSERT INTO project VALUES ('app', 'me')")
        assert catalogue.row("SELECT count(*) FROM trial")[0] == 6


def test_who_has_no_role_sees_nothing(place, users):
    said = place("trials", "--db", users["nobody"], code=1)
    assert "may not read the store" in said
    assert len(said.splitlines()) == 1 and UUID.format(1) not in said


def test_who_may_not_connect_cannot_hold_up_pushes(place, users, monkeypatch):
    monkeypatch.setattr(catalogues, "_PATIENCE", "200ms")
    with psycopg.connect(users["nobody"]) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (catalogues._PUSHING,))
        said = place("push", "--to", users["writer"], code=1)
        assert place.names["nobody"] in said and "again later" in said
    with Catalogue.open(place.address) as catalogue:
        (database,) = catalogue.row("SELECT current_database()")
        roles = ", ".join(f"taupy_{database}_{role}" for role in ("reader", "writer", "owner"))
        catalogue.connection.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
        catalogue.connection.execute(f"GRANT CONNECT ON DATABASE {database} TO {roles}")
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(users["nobody"])
    for who in ("reader", "writer", "owner"):
        assert "6 trials" in place("store", "check", "--db", users[who])


def test_a_project_is_seen_by_its_members_only(place, users):
    with Catalogue.open(users["owner"]) as catalogue:
        ((application, trials),) = catalogue.rows(
            "SELECT application, array_agg(id) FROM trial GROUP BY application"
            " ORDER BY count(*) DESC LIMIT 1"
        )
        catalogue.connection.execute(
            "INSERT INTO project VALUES (%s, %s)", (application, place.names["team"])
        )
    seen = {}
    for who in ("reader", "writer", "member", "owner"):
        with Catalogue.open(users[who]) as catalogue:
            names = ["trial", "file", *(
                name for name, table in tables().items() if table.of_a_trial and not table.in_files
            )]  # fmt: skip
            seen[who] = [
                catalogue.row(
                    f"SELECT count(*) FROM {name}"
                    f" WHERE {'id' if name == 'trial' else 'trial_id'} = ANY(%s)", (trials,)
                )[0]
                for name in names
            ]  # fmt: skip
    assert seen["member"] == seen["owner"] and seen["owner"][0] == len(trials)
    assert {*seen["reader"], *seen["writer"]} == {0}
    for who in ("reader", "writer"):  # to whom a project's files are no orphans
        assert "no trial has" not in place("store", "check", "--db", users[who])
        assert "only an owner" in place("store", "check", "--mend", "--db", users[who], code=1)
    assert "6 trials" in place("store", "check", "--mend", "--read", "--db", users["owner"])
    with StoreDB(users["reader"]) as db:
        assert [trial for trial in db.trials() if trial.id in trials] == []
    shown = place("pprof", str(trials[0]), "--db", users["reader"], code=1)
    assert "no trial" in shown
    with Catalogue.open(users["writer"]) as catalogue, pytest.raises(psycopg.Error):
        catalogue.connection.execute(
            "INSERT INTO trial (uuid, application, experiment, name, started_at, duration_ns,"
            " state, source, content) VALUES ('u', %s, 'e', 'n', 's', 1, 'complete', 's', 'c')",
            (application,),
        )


def test_who_may_not_make_roles_makes_a_store_without(place, new_address, server):
    address = new_address()
    with psycopg.connect(address, autocommit=True) as connection:
        for name, may in (("plain", ""), ("maker", "CREATEROLE")):
            connection.execute(f"CREATE ROLE {name} LOGIN {may}")
            connection.execute(f"CREATE DATABASE of_{name} OWNER {name}")
    for name, said in (("plain", "CREATEROLE"), ("maker", "taupy_of_maker_reader")):
        own = f"postgresql://{name}@/of_{name}?host={server}"
        assert said in place("store", "create", "--db", own, "--files", f"files of {name}")
        place("push", "--to", own)
        assert "6 trials already there" in place("push", "--to", own)


def test_a_password_is_never_shown(place, server, tmp_path):
    secret = "s3cret-word"
    (tmp_path / "pass").write_text(f"*:*:*:*:{secret}\n")
    os.chmod(tmp_path / "pass", 0o600)
    for words in (("trials", "--db"), ("push", "--to")):
        address = f"postgresql://me:{secret}@/x?host={server}"
        assert secret not in place(*words, address, code=2)
        address = f"postgresql://nobody_such@/x?host={server}&passfile={tmp_path / 'pass'}"
        assert secret not in place(*words, address, code=1)
