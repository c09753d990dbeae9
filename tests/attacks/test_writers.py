"""A store with a second writer and a reader: what they may do to rows of others."""

from __future__ import annotations

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.store.catalogue import Catalogue
from taupy.store.layout import tables
from tests.builders import UUID
from tests.unit.profiledb.test_dialects import training

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


def test_nothing_is_added_to_a_timer_or_kernel_that_another_user_has_pushed(place, users):
    def add(who, *statements):
        with Catalogue.open(users[who]) as catalogue:
            for statement in statements:
                catalogue.connection.execute(statement)

    line = "INSERT INTO kernel_code_line (module, name, place) VALUES ('m', 'k', 'a.cu:{}')"
    add("first", "INSERT INTO kernel_code (module, name) VALUES ('m', 'k')", line.format(1))
    before = contents(place)
    for statement in (
        "INSERT INTO timer_group SELECT id, 'evil' FROM timer",
        "INSERT INTO timer (id, name, short_name, pushed_by) VALUES (1, 'x', 'x', 'me')",
        line.format(2),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            add("second", statement)
    assert contents(place) == before
    add("first", line.format(2))
    place("push", "--to", users["second"])
    assert contents(place)["timer_group"] == before["timer_group"]


def test_the_groups_of_timers_that_another_user_has_pushed_are_those_of_all(place, users):
    profile = training(9)
    with ProfileDB.open(place.path / "b.db", create=True) as db:
        add_profile(db, profile)
    before = len(contents(place)["timer"])
    place("push", "--db", "b.db", "--to", users["second"])
    after = contents(place)
    assert len(after["timer"]) == before, "they are the first writer's"
    place("pull", profile.uuid, "--from", users["reader"], "--db", "c.db")
    assert groups_in(place.path / "c.db") == groups_in(place.path / "b.db") != []


def groups_in(path):
    with ProfileDB.open(path) as db:
        return db.rows(
            "SELECT timer.name, timer_group.name FROM timer_group"
            " JOIN timer ON timer.id = timer_id ORDER BY 1, 2"
        )


@pytest.mark.parametrize(
    "change",
    [
        "trial SET state = 'nonsense'",
        "trial SET source = repeat('x', 100 << 20)",
        "metadata SET value = repeat('x', 100 << 20)",
        "metadata SET name = repeat('x', 40 << 20), value = repeat('x', 40 << 20)",
    ],
)
def test_a_row_that_no_client_can_copy_does_not_enter_a_catalogue(place, users, change):
    with Catalogue.open(users["first"]) as catalogue:
        with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.ProgramLimitExceeded)):
            catalogue.connection.execute(f"UPDATE {change}")
        catalogue.connection.execute("UPDATE metadata SET value = repeat('x', 1 << 20)")
    place("trials", "--db", users["reader"])


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
