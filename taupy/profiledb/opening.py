"""Open what a user names: a trial database, or a team's store."""

from __future__ import annotations

from taupy.doors import door
from taupy.profiledb.address import is_address
from taupy.profiledb.database import ProfileDB


def editable(name: str) -> ProfileDB:
    """A trial database, or a store, open for changes to its trials and derived metrics.

    Raises:
        DatabaseError: it cannot be opened.
    """
    if is_address(name):
        store: ProfileDB = door("store.editing").EditableStore(name)
        return store
    return ProfileDB.open(name, readonly=False)


def opened(name: str, cluster: str | None = None) -> ProfileDB:
    """A trial database, or a store, for reading.

    Args:
        name: a file, or the address of a store.
        cluster: for a store, the Dask scheduler whose workers add up values of several trials;
            None for the one set in the environment or the project, if any.

    Raises:
        DatabaseError: it cannot be opened.
    """
    if is_address(name):
        store: ProfileDB = door("store.reading").StoreDB(name, cluster)
        return store
    return ProfileDB.open(name)
