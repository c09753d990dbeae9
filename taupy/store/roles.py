"""Permissions in a store's catalogue: three roles, and row security by application.

    GRANT taupy_profiles_reader TO alice;
    INSERT INTO taupy.project (application, role) VALUES ('mnist', 'vision_team');

A reader only reads. A writer also pushes trials, and changes or deletes those that the same user
has pushed. An owner changes tables and trials of others, and sees everything. An application in
`project` is visible only to members of its roles, any other to everyone.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from taupy.profiledb.kernel_codes import PARTS, WHOLE
from taupy.store.layout import tables

ROLES = ("reader", "writer", "owner")

_LONGEST = 63
"""Maximum length of a name in PostgreSQL, in bytes."""

OF_OWN_TIMERS = "timer_id IN (SELECT id FROM taupy.timer WHERE pushed_by = current_user)"
"""The groups that this user may add: those of other timers say what trials of others are."""

_OF_OWN_KERNELS = (
    f"(module, name) IN (SELECT module, name FROM taupy.{WHOLE} WHERE pushed_by = current_user)"
)

_HIDDEN = """
    SELECT application FROM taupy.project
    EXCEPT
    SELECT application FROM taupy.project JOIN pg_roles ON pg_roles.rolname = project.role
     WHERE pg_has_role(pg_roles.oid, 'member')
"""


def make(connection: Any) -> str:
    """Create the roles of this database's store; returns the prefix of their names.

    Existing roles, of an earlier store, are reused. "" if this user may not create roles.
    """
    (may, database) = connection.execute(
        "SELECT rolsuper OR rolcreaterole, current_database() FROM pg_roles"
        " WHERE rolname = current_user"
    ).fetchone()
    if not may:
        return ""
    prefix = f"taupy_{database}"
    if len(f"{prefix}_reader".encode()) > _LONGEST:
        prefix = f"taupy_{blake2b(database.encode(), digest_size=8).hexdigest()}"
    for what in ROLES:
        name = f"{prefix}_{what}"
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).rowcount:
            connection.execute(f"CREATE ROLE {quoted(name)} NOLOGIN")
    connection.execute(f"GRANT {owner_of(prefix)} TO CURRENT_USER")
    return prefix


def owner_of(prefix: str) -> str:
    """The owner's name, quoted."""
    return quoted(f"{prefix}_owner")


def secure(connection: Any, prefix: str) -> None:
    """Grant the roles their privileges on all existing tables; run as the tables' owner.

    A writer adds rows, and changes or deletes those of trials, and of ceilings, derived metrics and
    kernels, that this user has pushed. What trials share has ids derived from its content: it is
    added, and never changed. What belongs to a timer or a kernel is added by who has pushed that.
    """
    reader, writer = (quoted(f"{prefix}_{what}") for what in ("reader", "writer"))
    every = "ON ALL TABLES IN SCHEMA taupy"
    connection.execute(f"GRANT USAGE ON SCHEMA taupy TO {reader}, {writer}")
    connection.execute(f"REVOKE ALL {every} FROM {reader}, {writer}")
    connection.execute(f"GRANT SELECT {every} TO {reader}, {writer}")
    visible = f"application NOT IN ({_HIDDEN})"
    _by_row(connection, "trial", visible, f"pushed_by = current_user AND {visible}")
    connection.execute(f"GRANT INSERT, UPDATE, DELETE ON trial TO {writer}")
    of_trials = "trial_id IN (SELECT id FROM taupy.trial{})"
    own = "pushed_by = current_user"
    _by_row(connection, "timer", "true", own)
    _by_row(connection, "timer_group", "true", OF_OWN_TIMERS)
    for table in (*tables().values(), None):
        if table is not None and table.in_files:
            continue
        name = "file" if table is None else table.name
        if table is not None and table.shared:
            connection.execute(f"GRANT INSERT ON {name} TO {writer}")
            continue
        if table is None or table.of_a_trial:
            _by_row(connection, name, of_trials.format(""), of_trials.format(f" WHERE {own}"))
        else:
            of_own = f"{own} AND {_OF_OWN_KERNELS}" if name in PARTS else own
            _by_row(connection, name, "true", of_own)
        connection.execute(f"GRANT INSERT, UPDATE, DELETE ON {name} TO {writer}")


def _by_row(connection: Any, table: str, visible: str, own: str) -> None:
    """Who sees the rows of a table, and who adds, changes and deletes them."""
    connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for policy, rule in (
        ("by_project", f"FOR SELECT USING ({visible})"),
        ("own_added", f"FOR INSERT WITH CHECK ({own})"),
        ("own_changed", f"FOR UPDATE USING ({own}) WITH CHECK ({own})"),
        ("own_deleted", f"FOR DELETE USING ({own})"),
    ):
        connection.execute(f"DROP POLICY IF EXISTS {policy} ON {table}")
        connection.execute(f"CREATE POLICY {policy} ON {table} {rule}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
