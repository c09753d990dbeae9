"""A store with a second writer and a reader: what they may do to rows of others."""

from __future__ import annotations

import pytest

from taupy.store.catalogue import Catalogue
from taupy.store.layout import tables
from tests.builders import UUID

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow


@pytest.fixture
def users(place):
    """Addresses of the first writer, who has pushed everything, another one, and a reader."""
    with Catalogue.open(place.address) as catalogue:
        (database,) = catalogue.row("SELECT current_database()")
        prefix, addresses = f"taupy_{database}", {}
        for who, role in (("first", "writer"), ("second", "writer"), ("reader", "reader")):
            name = f"{database}_{who}"
            catalogue.connection.execute(f"CREATE ROLE {name} LOGIN")
            catalogue.connection.execute(f"GRANT {prefix}_{role} TO {name}")
            addresses[who] = place.address.replace("postgres@", f"{name}@")
    place("push", "--to", addresses["first"])
    return addresses


def contents(place):
    """Everything in the catalogue."""
    with Catalogue.open(place.address) as catalogue:
        names = [name for (name,) in catalogue.rows(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'taupy' ORDER BY 1"
        )]  # fmt: skip
        return {name: sorted(map(repr, catalogue.rows(f"SELECT * FROM {name}"))) for name in names}


@pytest.mark.parametrize("who", ["second", "reader"])
def test_no_statement_changes_rows_that_another_user_has_pushed(place, users, who):
    before = contents(place)
    assert sum(map(bool, before.values())) > 15
    with Catalogue.open(users[who]) as catalogue:
        execute = catalogue.connection.execute
        columns = catalogue.rows(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'taupy'"
        )
        statements = [f"UPDATE {table} SET {column} = {column}" for table, column in columns]
        for name in before:
            statements += [
                f"DELETE FROM {name}",
                f"TRUNCATE {name} CASCADE",
                f"DROP TABLE {name} CASCADE",
                f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY",
                f"DROP POLICY by_project ON {name}",
                f"CREATE TRIGGER t BEFORE INSERT ON {name}"
                " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
                f"GRANT ALL ON {name} TO PUBLIC",
            ]
        statements += [
            "UPDATE trial SET name = 'x', pushed_by = current_user",
            "UPDATE store SET value = '/elsewhere' WHERE name = 'files'",
            "INSERT INTO project VALUES ('app', 'me')",
            "INSERT INTO tag SELECT id, 'evil' FROM trial",
            "INSERT INTO metadata (trial_id, name, value) SELECT id, 'evil', '' FROM trial",
            "INSERT INTO file SELECT '../x', id, 'call', 1, 1, '' FROM trial",
            "INSERT INTO trial (uuid, application, experiment, name, started_at, duration_ns,"
            " state, source, content, pushed_by) VALUES ('01234567', 'a', 'e', 'n', 's', 1,"
            " 'complete', 's', 'c', 'postgres')",
            "CREATE TABLE taupy.mine ()",
            "DROP SCHEMA taupy CASCADE",
        ]
        changed = []
        for statement in statements:
            try:
                if execute(statement).rowcount > 0:
                    changed.append(statement)
            except psycopg.errors.InsufficientPrivilege:
                pass
            except (psycopg.errors.CheckViolation, psycopg.errors.GeneratedAlways):
                pass
            except psycopg.errors.UndefinedObject:  # what is shared has no policy
                pass
    assert changed == []
    assert contents(place) == before


def test_the_second_writer_has_rights_to_rows_of_its_own(place, users):
    place("trials", "rename", "1", "mine", "--db", "taupy.db")
    place("pull", "1", "--from", users["first"], "--db", "b.db")
    from taupy.profiledb.database import ProfileDB

    with ProfileDB.open(place.path / "b.db", readonly=False) as db, db.transaction() as inside:
        inside.execute("UPDATE trial SET uuid = ?", (UUID.format(9),))
    place("push", "--db", "b.db", "--to", users["second"])
    with Catalogue.open(users["second"]) as catalogue:
        (own,) = catalogue.row("SELECT id FROM trial WHERE pushed_by = current_user")
    place("trials", "tag", own, "x", "--db", users["second"])
    place("trials", "untag", own, "x", "--db", users["second"])
    place("trials", "rename", own, "other", "--db", users["second"])
    place("trials", "delete", own, "--yes", "--db", users["second"])
    place("store", "compact", "--yes", "--db", users["first"])


def test_commands_name_whose_trial_it_is(place, users):
    before = contents(place)
    for words in (
        ("trials", "rename", "1", "evil"),
        ("trials", "tag", "1", "evil"),
        ("trials", "untag", "2", "base"),
        ("trials", "delete", "1", "--yes"),
        ("store", "retain", "--days", "0", "--yes"),
    ):
        said = place(*words, "--db", users["second"], code=1)
        assert said.count("\n") == 1 and "Traceback" not in said, words
        assert "other user" in said or "another user" in said or "row-level security" in said
    place("trials", "tag", "1", "grown", "--db", "taupy.db")
    said = place("push", "1", "--to", users["second"], code=1)
    assert "it was pushed by" in said and "_first" in said
    assert contents(place) == before
    assert "6 trials" in place("store", "check", "--db", place.address)


def test_names_and_uuids_that_lead_elsewhere_do_not_enter_a_catalogue(place, users):
    with Catalogue.open(users["first"]) as catalogue:
        for statement in (
            "UPDATE file SET name = '../' || name",
            "UPDATE file SET name = '/etc/passwd'",
            "UPDATE trial SET uuid = '../../' || uuid",
        ):
            with pytest.raises(psycopg.errors.CheckViolation):
                catalogue.connection.execute(statement)
    assert {"trial", "file"}.isdisjoint(tables())
