"""Open what a user names: a trial database, or a team's store."""

from __future__ import annotations

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.store.address import is_address


def opened(name: str) -> ProfileDB:
    """A trial database, or a store, for reading.

    Args:
        name: a file, or the address of a store.

    Raises:
        DatabaseError: it cannot be opened.
    """
    if is_address(name):
        from taupy.profiledb.store.reading import StoreDB

        return StoreDB(name)
    return ProfileDB.open(name)
