"""Store and read the modules that a trial loaded onto GPUs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from taupy.model.gpu import Module

_INSERT = "INSERT INTO module VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


def add_modules(
    connection: sqlite3.Connection,
    trial: int,
    modules: Sequence[Module],
    nodes: Collection[int],
) -> None:
    """Insert the modules of these nodes."""
    connection.executemany(
        _INSERT,
        (
            (
                *(trial, module.node, storable(module.sha256 or ""), module.bytes),
                *(module.loads, module.loaded_ns, int(module.kept)),
            )
            for module in modules
            if module.node in nodes
        ),
    )


def modules_of(db: ProfileDB, trial: int) -> list[Module]:
    """The trial's modules, in the order in which they were loaded."""
    from taupy.model.gpu import Module

    rows = db.rows(
        "SELECT node, sha256, bytes, loads, loaded_ns, kept FROM module WHERE trial_id = ?"
        " ORDER BY loaded_ns, node, sha256, bytes",
        (trial,),
    )
    return [
        Module(node, sha256 or None, size, loads, loaded_ns, bool(kept))
        for node, sha256, size, loads, loaded_ns, kept in rows
    ]


def hashes_of(db: ProfileDB, trial: int) -> set[str]:
    """The SHA-256 hashes of a trial's modules; modules without one are omitted."""
    rows = db.rows("SELECT DISTINCT sha256 FROM module WHERE trial_id = ?", (trial,))
    return {sha256 for (sha256,) in rows if sha256}
