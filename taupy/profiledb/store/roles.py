"""Permissions in a store's catalogue: three roles, and row security by application.

    GRANT taupy_profiles_reader TO alice;
    INSERT INTO taupy.project (application, role) VALUES ('mnist', 'vision_team');

A reader only reads, a writer also pushes and deletes trials, an owner changes tables and sees
everything. An application listed in `project` is visible only to members of its roles, any other to
everyone.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from taupy.profiledb.store.layout import tables

ROLES = ("reader", "writer", "owner")

_LONGEST = 63
"""Maximum length of a name in PostgreSQL, in bytes."""

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
    """Grant the roles their privileges on all existing tables; run as the tables' owner."""
    reader, writer = (quoted(f"{prefix}_{what}") for what in ("reader", "writer"))
    connection.execute(f"GRANT USAGE ON SCHEMA taupy TO {reader}, {writer}")
    connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA taupy TO {reader}, {writer}")
    written = [table for table in tables().values() if not table.in_files]
    for name in ("trial", "file", *(table.name for table in written)):
        connection.execute(f"GRANT INSERT, UPDATE, DELETE ON {name} TO {writer}")
    _by_project(connection, "trial", f"application NOT IN ({_HIDDEN})")
    for name in ("file", *(table.name for table in written if table.of_a_trial)):
        _by_project(connection, name, "trial_id IN (SELECT id FROM taupy.trial)")


def _by_project(connection: Any, table: str, condition: str) -> None:
    connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    connection.execute(f"DROP POLICY IF EXISTS by_project ON {table}")
    connection.execute(f"CREATE POLICY by_project ON {table} USING ({condition})")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
